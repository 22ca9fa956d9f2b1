"""The fields of values, as a sample shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from queryable.cli.values import cell_text, json_value

_MAX_EXAMPLE = 30
_MAX_FIELDS = 100
_NAMES: dict[type, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "list",
    dict: "object", type(None): "null", bytes: "bytes",
}  # fmt: skip


def field_rows(values: Iterable[Any]) -> list[dict[str, Any]]:
    """One row per field: its types, the number of values that have it, and an example. Values that
    are not objects are one field, `value`. Fields of nested objects have a path: `.address.city`.
    """
    types: dict[str, dict[str, None]] = {}
    counts: dict[str, int] = {}
    examples: dict[str, str] = {}
    total = 0
    for value in values:
        total += 1
        for path, field in _fields("", value):
            if path not in types and len(types) == _MAX_FIELDS:
                continue
            types.setdefault(path, {})[_type_name(field)] = None
            counts[path] = counts.get(path, 0) + 1
            if field is not None:
                examples.setdefault(path, _short(cell_text(field)))
    return [
        {
            "field": path or "value",
            "type": " or ".join(types[path]),
            "in": f"{counts[path]}/{total}",
            "example": examples.get(path, ""),
        }
        for path in types
    ]


def _fields(path: str, value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict) or not value:
        yield path, value
        return
    for name, field in value.items():
        yield from _fields(f"{path}.{name}", field)


def _type_name(value: Any) -> str:
    return _NAMES.get(type(value)) or _NAMES.get(type(json_value(value)), type(value).__name__)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_EXAMPLE else f"{text[:_MAX_EXAMPLE]}…"
