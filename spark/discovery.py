"""Finds views: by their entries in views.toml, as Python files and modules anywhere, and in the
package ``spark.views``.

A view is a ``View`` in a Python file, by default under the name ``VIEW``. In a folder, files whose
name starts with ``_`` are not views.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from pyspark.cloudpickle import register_pickle_by_value

import model.views as entries
from model.classes import file_reference, is_class_path
from model.toml_lines import view_table
from spark.derive.views import derived_view
from spark.errors import JobError
from spark.view import View

_DAY_MS = 24 * 3600 * 1000


def views_of_package(name: str, path: Iterable[str]) -> dict[str, View]:
    """The views of a package's modules, by name, in the order of the module names."""
    names = sorted(module.name for module in pkgutil.iter_modules(path) if module.name[0] != "_")
    return _by_name(_view_of(importlib.import_module(f"{name}.{module}")) for module in names)


def views_at(path: Path) -> dict[str, View]:
    """The views of a folder's files. Raises ``JobError`` if it has none."""
    files = sorted(file for file in path.glob("*.py") if file.name[0] != "_")
    if not files:
        raise JobError(f"{path}: the folder has no view. A view is a Python file with a VIEW.")
    return _by_name(_view_of(_load(file)) for file in files)


def find_view(reference: str, folder: Path = Path()) -> View:
    """The view that ``my_view.py``, ``my_view.py:NAME`` or ``package.module:NAME`` names. Files are
    relative to ``folder``. Raises ``JobError``."""
    if (file := file_reference(reference)) is not None:
        path, attribute = file
        return _view_of(_load(folder / path), attribute)
    name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise JobError(f"{reference}: {type(error).__name__}: {error}") from error
    if name.partition(".")[0] != __package__:
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return _view_of(module, attribute)


def declared_views(deployment: entries.Deployment, folder: Path) -> dict[str, View]:
    """The views with a ``spark_view`` or a table ``derive`` in views.toml, in its order.
    ``folder``: where views.toml is. Raises ``JobError``."""
    return _by_name(_declared(entry, folder) for entry in deployment.views if entry.uses_spark)


def select_views(
    names: Iterable[str],
    packaged: Mapping[str, View],
    deployment: entries.Deployment | None = None,
    folder: Path = Path(),
) -> dict[str, View]:
    """Views in the order of ``names``. A name is that of an entry of views.toml or of a packaged
    view, the reference of a view (``find_view``), or a folder. Raises ``JobError``."""
    declared = {} if deployment is None else {entry.name: entry for entry in deployment.views}
    chosen: list[View] = []
    for name in dict.fromkeys(names):
        entry = declared.get(name)
        if entry is not None and entry.uses_spark:
            chosen.append(_declared(entry, folder))
        elif name in packaged:
            chosen.append(_with_entry(packaged[name], deployment))
        elif is_class_path(name) or file_reference(name) is not None:
            chosen.append(_with_entry(find_view(name), deployment))
        elif "/" in name:
            chosen += (_with_entry(view, deployment) for view in views_at(Path(name)).values())
        else:
            known = [entry.name for entry in declared.values() if entry.uses_spark] or packaged
            raise JobError(
                f"no view {name}; known views: {', '.join(known)}. A view of your own is named by "
                "its file, folder or module, such as ./my_view.py or my_views.orders:VIEW"
            )
    return _by_name(chosen)


def is_path(text: str) -> bool:
    """Whether the text names a file or folder."""
    return file_reference(text) is not None or ("/" in text and not is_class_path(text))


def _declared(entry: entries.View, folder: Path) -> View:
    derived = derived_view(entry)
    if derived is not None:
        return _completed(derived, entry)
    assert entry.spark_view is not None
    try:
        view = find_view(entry.spark_view, folder)
    except JobError as error:
        raise JobError(f"{view_table(entry.name)} spark_view: {error}") from error
    return _completed(replace(view, name=entry.name, topic=entry.topic), entry)


def _with_entry(view: View, deployment: entries.Deployment | None) -> View:
    """The view, completed from the entry of its topic, if there is one."""
    views = () if deployment is None else deployment.views
    return next((_completed(view, entry) for entry in views if entry.topic == view.topic), view)


def _completed(view: View, entry: entries.View) -> View:
    config = dict(view.topic_config)
    if entry.retention is not None:
        # The topic keeps records for a day longer than the view keeps entries.
        retention = {
            "cleanup.policy": "compact,delete",
            "retention.ms": f"{entry.retention + _DAY_MS}",
        }
        config = {**retention, **config}
    return replace(
        view,
        partitions=entry.partitions or view.partitions,
        topic_config=config,
        trigger=entry.trigger or view.trigger,
    )


def _load(file: Path) -> ModuleType:
    # Two files may have the same name.
    name = f"_views_{file.stem}_{zlib.crc32(str(file.absolute()).encode()):08x}"
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


def _view_of(module: ModuleType, attribute: str = "VIEW") -> View:
    view = getattr(module, attribute, None)
    file = Path(module.__file__ or module.__name__)
    if not isinstance(view, View):
        raise JobError(f"{file}: no {attribute}. Add {attribute} = View(...) from spark.view.")
    name = view.name or file.stem.replace("_", "-")
    return replace(view, name=name, topic=view.topic or name, module=module.__name__)


def _by_name(views: Iterable[View]) -> dict[str, View]:
    by_name: dict[str, View] = {}
    for view in views:
        if by_name.setdefault(view.name, view) is not view:
            raise JobError(f"two views have the name {view.name}")
        if view.topic in view.source_topics:
            raise JobError(
                f"{view.name} would write its results into {view.topic}, its source. Give it "
                "another topic: in its View(topic=…), or in its entry of views.toml"
            )
    return by_name
