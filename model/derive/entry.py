"""The entry of a derived view in views.toml: its defaults, and whether it fits the derivation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from model.derive.derivation import Derivation
from model.derive.sources import Sources, with_source
from model.derive.table import parse_derivation
from model.expressions.types import Kind, Type
from model.formats.format import Read
from model.formats.registry import FORMATS
from model.kinds.calendar_windows import CalendarWindows
from model.kinds.registry import KINDS

if TYPE_CHECKING:
    from model.views import View


def value_type(derivation: Derivation) -> Type | None:
    """The type of the values, if they need not be JSON objects. Otherwise None."""
    only = derivation.only
    if derivation.is_map or (only is not None and only.function == "latest"):
        select = derivation.select
        return select.values[0][1].type if select is not None and select.single else None
    if only is None or only.function == "top_k":
        return None
    return only.type


def with_defaults(
    name: str, fields: dict[str, Any], sources: Sources, read: Read
) -> tuple[Derivation | None, dict[str, Any]]:
    """The derivation of an entry, if it has the table ``derive``, and its other fields with their
    defaults. ``read``: reads files with schemas. Raises TableError, with the path of a key in
    ``derive`` or in its source."""
    if "derive" not in fields:
        return None, fields
    derivation = parse_derivation(with_source(fields["derive"], sources), read)
    entry = dict(_defaults(name, derivation))
    if fields.get("store", entry["store"]) != entry["store"]:
        entry.pop("window_size", None)
        entry.pop("window_zone", None)
    entry |= fields
    del entry["derive"]
    return derivation, entry


def _defaults(name: str, derivation: Derivation) -> Iterator[tuple[str, str]]:
    """The name and the default value of fields, for entries that do not have these fields."""
    yield "topic", name.replace("@", "-v")  # version 2 of orders: orders-v2
    yield "key", _key_formats(derivation)[0]
    type_ = value_type(derivation)
    only = derivation.only
    if type_ is not None and (only is None or only.name == only.function):
        single = [] if type_.optional else _formats_of(type_.kind)
    else:
        single = []
    yield "value", (single or _object_formats())[0]
    yield "store", _stores(derivation)[0]
    if derivation.window is not None:
        yield "window_size", str(derivation.window)
    if isinstance(derivation.window, CalendarWindows):
        yield "window_zone", derivation.window.zone


def contradictions(view: View, derivation: Derivation) -> Iterator[tuple[str, str]]:
    """The fields of the entry that do not fit the derivation, each with the reason."""
    if view.spark_view is not None:
        yield "spark_view", "a view has spark_view or derive, not both"
    if view.topic in (derivation.source, *(join.source for join in derivation.joins)):
        yield "topic", "the view is derived from the same topic; give it another topic"
    keys = _key_formats(derivation)
    if view.key not in keys:
        yield "key", f'"{view.key}" does not fit derive.key; allowed: {", ".join(keys)}'
    type_ = value_type(derivation)
    objects = _object_formats()
    values = objects + ([] if type_ is None else _formats_of(type_.kind))
    if view.value not in values:
        yield "value", f'"{view.value}" does not fit derive; allowed: {", ".join(values)}'
    elif view.value not in objects and type_ is not None and type_.optional:
        yield (
            "value",
            f'the value may be null, which a "{view.value}" cannot be; use '
            f'"{objects[0]}", or coalesce',
        )
    if view.partitioner != "murmur2":
        yield "partitioner", 'Spark partitions the topics that it derives with "murmur2"'
    if view.append:
        yield "append", "a topic that Spark derives has no other producers"
    if view.kind.derived != derivation.shape:
        allowed = ", ".join(_stores(derivation))
        yield "store", f'"{view.store}" does not fit derive; allowed: {allowed}'
    elif derivation.points and view.window_text is not None:
        yield "window_size", "derive.points are points in time, without a size"
    elif derivation.window is not None or derivation.points:
        window = derivation.window
        if window is not None and view.window_text != str(window):
            yield "window_size", f"differs from the size in derive.window ({window})"
        if isinstance(window, CalendarWindows) and view.window_zone != window.zone:
            yield "window_zone", f"differs from derive.zone ({window.zone})"
        if view.window_key != "changelog":
            yield "window_key", 'Spark writes keys of windows as "changelog"'


def _key_formats(derivation: Derivation) -> list[str]:
    """The formats that fit the key, the default first."""
    kind = Kind.STRING if len(derivation.key) > 1 else derivation.key[0].type.kind
    return [name for name in _formats_of(kind) if FORMATS[name].for_keys]


def _formats_of(kind: Kind) -> list[str]:
    return [name for name, format_ in FORMATS.items() if kind in format_.derived]


def _object_formats() -> list[str]:
    return [name for name, format_ in FORMATS.items() if format_.has_objects]


def _stores(derivation: Derivation) -> list[str]:
    return [name for name, kind in KINDS.items() if kind.derived == derivation.shape]
