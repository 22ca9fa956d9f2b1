"""A digest of the user's own code of a view. It needs no Spark.

The code is the file that has the view, and the modules that this file imports, directly or
indirectly. Modules of Python, of installed packages and of this project do not count, so an upgrade
does not change the digest. Comments, docstrings, annotations, white space, the names of files and
Python's version do not change it either.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple
from zipimport import zipimporter

PROJECT = ("backend", "local", "model", "queryable", "spark")
"""The packages of this project."""

_IGNORED = {"annotation", "returns", "type_comment", "type_params", "kind"}
_LIBRARY_FOLDERS = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


def own_code(module: str) -> str:
    """A digest of the normal forms of all files. ``module``: the imported one that has the view."""
    digests: dict[Path, str] = {}
    waiting = [(_place(module), sys.modules[module].__package__ or "")]
    while waiting:
        place, package = waiting.pop()
        if place is None or place.file is None or place.file in digests:
            continue
        content = _content(place.file)
        if place.file.suffix != ".py":
            digests[place.file] = _digest(content)
            continue
        tree = ast.parse(content)
        digests[place.file] = _digest(_normal(tree).encode())
        for name in _imports(tree, package):
            imported = _place(name)
            if imported is not None and _is_own(name, imported, module):
                is_package = imported.folders is not None
                waiting.append((imported, name if is_package else name.rpartition(".")[0]))
    return _digest(" ".join(sorted(digests.values())).encode())


class _Place(NamedTuple):
    """The file of a module, and the ``folders`` of a package; None if the module is not a
    package."""

    file: Path | None
    folders: Sequence[str] | None


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """The names of modules that a file may import. Some of them may be no modules. ``package``: the
    package of the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_packages(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                try:
                    base = resolve_name("." * node.level + base, package)
                except ImportError:  # not in a package
                    continue
            yield from _with_packages(base)
            for alias in node.names:
                yield f"{base}.{alias.name}"


def _with_packages(name: str) -> Iterator[str]:
    """A module, after the packages that it is in: importing it runs their code, too."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _is_own(name: str, place: _Place, view: str) -> bool:
    """Whether a module belongs to the user, as the module ``view`` does. The user's own package may
    be installed."""
    top = name.partition(".")[0]
    if place.file is None or top in PROJECT:
        return False
    path = str(place.file)
    is_installed = bool(_INSTALLED.search(path)) or path.startswith(_LIBRARY_FOLDERS)
    return not is_installed or top == view.partition(".")[0]


def _place(name: str) -> _Place | None:
    """Finds a module without importing it; None if there is none."""
    if name in sys.modules:
        module = sys.modules[name]
        file, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
        return _Place(Path(file) if file else None, folders)
    package = name.rpartition(".")[0]
    within = _place(package) if package else None
    if package and (within is None or within.folders is None):
        return None
    try:
        spec = PathFinder.find_spec(name, None if within is None else within.folders)
    except KeyError:  # a package without a file, in another one that was not imported
        return None
    if spec is None:
        return None
    file = spec.origin if spec.has_location else None
    return _Place(Path(file) if file else None, spec.submodule_search_locations)


def _content(file: Path) -> bytes:
    """The content of a module's file, which may be in a ZIP archive on Python's path."""
    try:
        return file.read_bytes()
    except NotADirectoryError:
        archive = next(parent for parent in file.parents if parent.is_file())
        return bytes(zipimporter(str(archive)).get_data(str(file)))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _normal(node: object) -> str:
    """Like ``ast.dump``, but the same for each version of Python, and without documentation."""
    if isinstance(node, list):
        return f"[{', '.join(map(_normal, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: getattr(node, name, None) for name in node._fields if name not in _IGNORED}
    if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        fields["body"] = node.body[ast.get_docstring(node, clean=False) is not None :]
    shown = (f"{name}={_normal(part)}" for name, part in fields.items() if part not in (None, []))
    return f"{type(node).__name__}({', '.join(shown)})"
