"""Finds views: in the package ``spark.views``, and in the user's own Python files and folders.

A view's module has a ``VIEW``. Modules whose name starts with ``_`` are not views.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

from pyspark.cloudpickle import register_pickle_by_value

from spark.errors import JobError
from spark.view import View


def views_of_package(name: str, path: Iterable[str]) -> dict[str, View]:
    """The views of a package's modules, by name, in the order of the module names."""
    found = sorted(module.name for module in pkgutil.iter_modules(path))
    modules = (importlib.import_module(f"{name}.{each}") for each in found if each[0] != "_")
    return _by_name(_view_of(module) for module in modules)


def views_at(path: Path) -> dict[str, View]:
    """The views of a Python file or of a folder's files; ``JobError`` if it has no view."""
    if path.is_dir():
        files = sorted(file for file in path.glob("*.py") if file.name[0] != "_")
    else:
        files = [path]
    if not files:
        raise JobError(f"{path}: the folder has no view. A view is a Python file with a VIEW.")
    return _by_name(_view_of(_load(file)) for file in files)


def select_views(given: Iterable[str], known: Mapping[str, View]) -> dict[str, View]:
    """Views by name, in the order of ``given``: names of known views, or paths of files and folders
    (see ``is_path``). Raises ``JobError``."""
    chosen: list[View] = []
    for each in dict.fromkeys(given):
        if is_path(each):
            chosen += views_at(Path(each)).values()
        elif each in known:
            chosen.append(known[each])
        else:
            raise JobError(
                f"no view {each}; known views: {', '.join(known)}. A view of your own is named by "
                "its file or folder, such as ./my_view.py"
            )
    return _by_name(chosen)


def is_path(text: str) -> bool:
    """Whether the text is the path of a file or folder, not the name of a view."""
    return "/" in text or text.endswith(".py")


def _load(file: Path) -> ModuleType:
    name = f"_views_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise JobError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Spark's workers cannot import the file, so its functions are pickled with the query.
    sys.modules[name] = module
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise JobError(f"{file}: {type(error).__name__}: {error}") from error
    return module


def _view_of(module: ModuleType) -> View:
    view = getattr(module, "VIEW", None)
    if not isinstance(view, View):
        raise JobError(f"{module.__file__}: no VIEW. Add VIEW = View(...) from spark.view.")
    return view


def _by_name(views: Iterable[View]) -> dict[str, View]:
    found: dict[str, View] = {}
    for view in views:
        if found.setdefault(view.name, view) is not view:
            raise JobError(f"two views have the name {view.name}")
    return found
