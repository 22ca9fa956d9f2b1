"""The fields of values, as a sample shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from model.rows.declared_fields import MAX_DEPTH
from queryable.cli.values import cell_text, json_value

NULL, OBJECT = "null", "object"
"""Names of types that a declared field does not have."""

_MAX_EXAMPLE = 30
_MAX_FIELDS = 100
_NAMES: dict[type, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "list",
    dict: OBJECT, type(None): NULL, bytes: "bytes",
}  # fmt: skip


@dataclass(slots=True)
class SampledField:
    """A field that some sampled values have.

    `path`: the names of the members that lead to it; empty for values that are not objects.
    `types`: the names of its types in JSON ► the number of values with each, in the order in which
    they were seen. `values`: its values that are not null. An object with members is not a value
    of a field.
    """

    path: tuple[str, ...]
    types: Counter[str] = field(default_factory=Counter)
    values: list[Any] = field(default_factory=list)

    @property
    def example(self) -> str:
        """One of its values as a short text, without control characters; empty without values."""
        return short_text(self.values[0]) if self.values else ""


def sampled_fields(values: Iterable[Any], max_fields: int) -> list[SampledField]:
    """The first `max_fields` fields of the values, in the order in which they are seen."""
    fields: dict[tuple[str, ...], SampledField] = {}
    for value in values:
        for path, member in _members((), value):
            if path not in fields:
                if len(fields) == max_fields:
                    continue
                fields[path] = SampledField(path)
            fields[path].types[_type_name(member)] += 1
            if member is not None:
                fields[path].values.append(member)
    return list(fields.values())


def field_rows(values: Iterable[Any]) -> list[dict[str, Any]]:
    """One row per field: its types, the number of values that have it, and an example. Values that
    are not objects are one field, `value`. Fields of nested objects have a path: `.address.city`.
    """
    sample = list(values)
    return [
        {
            "field": "".join(f".{name}" for name in sampled.path) or "value",
            "type": " or ".join(sampled.types),
            "in": f"{sampled.types.total()}/{len(sample)}",
            "example": sampled.example,
        }
        for sampled in sampled_fields(sample, _MAX_FIELDS)
    ]


def short_text(value: Any) -> str:
    """The beginning of the value's text, without control characters."""
    text = cell_text(value)
    return text if len(text) <= _MAX_EXAMPLE else f"{text[:_MAX_EXAMPLE]}…"


def _members(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not isinstance(value, dict) or not value or len(path) == MAX_DEPTH:
        yield path, value
        return
    for name, member in value.items():
        yield from _members((*path, name), member)


def _type_name(value: Any) -> str:
    return _NAMES.get(type(value)) or _NAMES.get(type(json_value(value)), type(value).__name__)
