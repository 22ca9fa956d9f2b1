"""Builds the wheel, and installs it without the rest of the project."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
_PATTERNS = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
PACKAGES = {pattern.rstrip("*") for pattern in _PATTERNS}


def run(*command: str | Path, cwd: Path) -> str:
    """The command's stdout. Raises AssertionError if it fails."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False, env={}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(folder: Path) -> Path:
    """The wheel, from a source distribution as `python -m build` does, without the network."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "nginx.conf"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "proxy", folder / "proxy")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    run(sys.executable, "-m", "build", "--no-isolation", cwd=folder)
    [built] = (folder / "dist").glob("*.whl")
    return built


def install_wheel(wheel: Path, folder: Path) -> Path:
    """The `bin` folder of a new environment with the wheel and the current dependencies."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    run(*pip, "install", "--no-deps", "--no-index", "--quiet", wheel, cwd=folder)
    [packages] = folder.glob("lib/python*/site-packages")
    # the .pth files of these folders are not read, so the checkout is not visible
    shared = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(shared) + "\n")
    return folder / "bin"
