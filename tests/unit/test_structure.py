"""The structure of the repository: sizes of modules and folders, docstrings, and the wheel."""

import ast
import re
import tomllib
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

from model.formats.registry import FORMATS
from model.kinds.registry import KINDS

ROOT = Path(__file__).parents[2]
PACKAGES = ("model", "backend", "queryable", "spark", "local", "bench")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MAX_LINES = 500  # of a module
MAX_FILES = 20  # of a folder


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_packages_are_found() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(PACKAGES)
    assert {"backend/instance/app.py", "spark/run.py", "local/kafka/broker.py"} <= set(
        map(name, MODULES)
    )
    assert Path(__file__) in TESTS


def test_modules_are_short() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in (*MODULES, *TESTS)}
    long = {module: lines for module, lines in lengths.items() if lines > MAX_LINES}
    assert long == {}, "split each of these modules"


def test_folders_are_small() -> None:
    counts = Counter(name(path.parent) for path in (*MODULES, *TESTS))
    large = {folder: count for folder, count in counts.items() if count > MAX_FILES}
    assert large == {}, "split each of these folders"


def test_packages_have_a_docstring() -> None:
    for folder in sorted({path.parent for path in MODULES}):
        init = folder / "__init__.py"
        assert init.exists(), f"{name(folder)} is not a package"
        assert ast.get_docstring(ast.parse(init.read_text())), f"{name(init)} has no docstring"


@pytest.mark.slow
def test_only_the_kinds_of_store_use_their_names() -> None:
    """Other code uses `view.kind`: a new kind of store is a module and a line in a registry."""
    default = {"model/views.py", "model/views_file.py"}  # "key-value" is the default in views.toml
    tables = {"model/derive/table.py", "model/derive/maps.py"}
    assert default | tables <= set(map(name, MODULES))
    assert any(name(path).startswith("model/kinds/") for path in MODULES)
    named = {
        f"{name(path)}:{node.lineno}"
        for path in MODULES
        if name(path).startswith(("backend/", "model/"))
        if not name(path).startswith(("model/kinds/",))
        if name(path) not in default
        if name(path) not in tables  # which have keys of the same names
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in KINDS
    }
    assert named == set()


@pytest.mark.slow
def test_only_the_formats_know_their_names() -> None:
    """All other code asks the codec or the format: a new one is a module and a registry line."""
    words = {"bytes", "json", "none", "string"}  # they mean other things, too
    places = [
        (f"{name(path)}:{node.lineno}", node)
        for path in MODULES
        if name(path).startswith(("backend/", "model/", "queryable/", "local/"))
        if not name(path).startswith("model/formats/")
        if name(path) != "queryable/cli/inspection/formats.py"  # it infers formats from records
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare | ast.Match | ast.Constant)
    ]
    assert len(places) > 1000
    named = {
        place
        for place, node in places
        if (isinstance(node, ast.Constant) and node.value in FORMATS.keys() - words)
        or (isinstance(node, ast.Compare | ast.Match) and _compares_a_format(node))
    }
    assert named == set()


def _compares_a_format(node: ast.Compare | ast.Match) -> bool:
    """Whether a `….key`, `….value`, `….key.name` or `….value.name` is compared with a format."""
    sides = [node.subject] if isinstance(node, ast.Match) else [node.left, *node.comparators]
    formats = [side.value if getattr(side, "attr", "") == "name" else side for side in sides]
    return any(getattr(of, "attr", "") in ("key", "value") for of in formats) and any(
        isinstance(each, ast.Constant) and each.value in FORMATS for each in ast.walk(node)
    )


def test_a_comparison_with_a_format_is_found() -> None:
    def found(text: str) -> bool:
        [node] = ast.parse(text).body
        node = node.value if isinstance(node, ast.Expr) else node
        assert isinstance(node, ast.Compare | ast.Match)
        return _compares_a_format(node)

    assert found("view.key == 'json'")
    assert found("view.value.name not in ('string', 'bytes')")
    assert found("match format_.value:\n  case 'json': pass")
    assert not found("view.key == other.key")
    assert not found("partials == 'none'")


def test_the_wheel_has_every_package_of_the_backend_and_its_data() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    included = setuptools["packages"]["find"]["include"]
    packages = {name(path.parent) for path in MODULES if path.is_relative_to(ROOT / "backend")}
    assert [p for p in packages if not any(fnmatch(p.replace("/", "."), i) for i in included)] == []
    data = {
        path
        for package, patterns in setuptools["package-data"].items()
        for pattern in patterns
        for folder in (packages if package == "*" else [package.replace(".", "/")])
        for path in (ROOT / folder).glob(pattern)
    }
    others = {
        path
        for path in (ROOT / "backend").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert others
    assert others <= data


def test_no_text_installs_the_project_by_its_name() -> None:
    # no package index has the project: whoever registers its name would run code at users
    suffixes = {".py", ".md", ".toml", ".yml", ".yaml", ".lua", ".html", ".js", ".sh", ""}
    folders = (
        "model",
        "backend",
        "spark",
        "queryable",
        "local",
        "bench",
        "docs",
        "deploy",
        "docker",
    )
    files = [*ROOT.glob("*"), *(path for each in folders for path in (ROOT / each).rglob("*"))]
    by_name = re.compile(r"pip3? install[^\n]*[ '\"]queryable[-_.]topics(?![\w.]*-)")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        if path.is_file() and path.suffix in suffixes
        for line in path.read_text(errors="replace").splitlines()
        if by_name.search(line)
    ]
    assert not found
