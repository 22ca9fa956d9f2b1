"""The wheel: its contents, and that it works without the rest of the project."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.queryable.wheel import PACKAGES, PROJECT, ROOT, build_wheel, install_wheel, run

# files in the packages' folders that only a checkout needs
LEFT_OUT = {"local/install-packages", "local/unpack-promtool"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_wheel(wheel, tmp_path_factory.mktemp("installed"))


def test_the_wheel_has_all_files_of_its_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(files) > 100
    assert files >= LEFT_OUT
    assert packed == files - LEFT_OUT


def test_the_client_works_with_only_the_wheel_installed(installed: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.metadata as m, queryable; from queryable import AsyncClient, Client;"
        "Client('http://127.0.0.1:9').close();"
        "print(queryable.__file__); print(m.version('queryable-topics'))"
    )
    path, version = run(installed / "python", "-c", code, cwd=tmp_path).splitlines()
    assert Path(path).is_relative_to(installed.parent)
    assert version == PROJECT["project"]["version"]
    assert "watch" in run(installed / "queryable", "--help", cwd=tmp_path)
    assert version in run(installed / "queryable", "--version", cwd=tmp_path)


def test_a_backend_can_be_imported_with_only_the_wheel_installed(
    installed: Path, tmp_path: Path
) -> None:
    code = "import backend.app; print(backend.__file__)"
    path = run(installed / "python", "-c", code, cwd=tmp_path).strip()
    assert Path(path).is_relative_to(installed.parent)
