"""What the repository promises of its own modules."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("backend", "spark", "local", "bench")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
MOST_LINES = 400


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_packages_are_found() -> None:
    assert {"backend/app.py", "spark/run.py", "local/broker.py"} <= set(map(name, MODULES))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_is_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MOST_LINES, f"{name(path)} has {lines} lines: it is two modules"


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES}), ids=name)
def test_a_package_says_what_it_is_for(folder: Path) -> None:
    init = folder / "__init__.py"
    assert init.exists(), f"{name(folder)} is no package"
    assert ast.get_docstring(ast.parse(init.read_text())), f"{name(init)} has no docstring"
