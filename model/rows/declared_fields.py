"""``[views.NAME.fields]``: the names and types of the fields of a view's values.

    [views.flights.fields]
    dest = "string"
    delay = "int?"
    "crew.captain" = "string?"

The table is not part of a view's hash: stores and reads by key do not depend on it. What a view
declares without it is in `model.rows.own_fields`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from model.derive.reading import TableError
from model.expressions.types import Type, parse_field_type

DERIVE, SCHEMA, REGISTRY = "derive", "schema", "registry"
"""A field that the table ``[views.NAME.derive]`` declares, or the file with the schema of the
values. REGISTRY: no view declares it, but the newest schema in the registry has it."""
MAX_FIELDS = 200
MAX_DEPTH = 16
_MAX_NAME = 1024


@dataclass(frozen=True, slots=True)
class DeclaredField:
    """``path``: the names of the members that lead to the field. ``text``: its type as written.
    ``declared_by``: what declares it, if it is not the table: `DERIVE`, `SCHEMA` or
    `REGISTRY`."""

    path: tuple[str, ...]
    text: str
    type: Type
    declared_by: str = dataclasses.field(default="", compare=False)

    @property
    def name(self) -> str:
        return ".".join(self.path)


def parse_declared_fields(table: Any) -> tuple[DeclaredField, ...]:
    """The fields of a table, in its order. Raises TableError."""
    if not isinstance(table, Mapping) or not table:
        raise TableError((), 'must be a table of fields with their types: delay = "int?"')
    fields = tuple(_fields(table, (), ()))
    if len(fields) > MAX_FIELDS:
        raise TableError((), f"has {len(fields)} fields; at most {MAX_FIELDS} are allowed")
    seen: set[tuple[str, ...]] = set()
    for field in fields:
        if field.path in seen:
            raise TableError(field.path, "is declared twice")
        seen.add(field.path)
    return fields


def _fields(
    table: Mapping[str, Any], path: tuple[str, ...], keys: tuple[str, ...]
) -> Iterator[DeclaredField]:
    for name, value in table.items():
        inner, where = (*path, *name.split(".")), (*keys, name)
        if not is_declarable(inner) or len(name) > _MAX_NAME:
            raise TableError(
                where, f"is not a name, or names with dots, of up to {MAX_DEPTH} levels"
            )
        if isinstance(value, Mapping):
            yield from _fields(value, inner, where)
            continue
        if not isinstance(value, str):
            raise TableError(where, f'{value!r} is not a type such as "string" or "int?"')
        try:
            yield DeclaredField(inner, value, parse_field_type(value))
        except ValueError as e:
            raise TableError(where, str(e)) from None


def is_declarable(path: tuple[str, ...]) -> bool:
    """Whether a field with this path can be declared. A name with a dot is that of a deeper
    field."""
    return len(path) <= MAX_DEPTH and all(
        0 < len(name) <= _MAX_NAME and "." not in name for name in path
    )


def hash_of_fields(fields: Iterable[DeclaredField]) -> str:
    """16 hexadecimal digits. Instances compare them: a condition means the same only if the fields
    have the same types."""
    written = sorted((field.path, field.text) for field in fields)
    return hashlib.sha256(orjson.dumps(written)).hexdigest()[:16]
