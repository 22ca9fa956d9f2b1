"""``[views.NAME.indexes]``: the fields of a view by whose values its entries are found.

    [views.flights.indexes]
    by-dest = ["dest"]
    by-route = ["origin", "dest", "time"]

The table is not part of a view's hash: an index never changes an answer, only its cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from model.derive.reading import TableError
from model.expressions.types import LISTS, Kind
from model.indexes.encoding import ENCODING
from model.rows.declared_fields import DeclaredField

MAX_INDEXES = 8
MAX_FIELDS = 4
INDEXED_KINDS = frozenset(
    {Kind.STRING, Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.BOOLEAN, Kind.TIME, *LISTS}
)
_MAX_NAMED = 50  # fields in an error
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeclaredIndex:
    """An index of entries by the values of these fields, the first one first. At most one is a
    list: then an entry has a key for each of its elements."""

    name: str
    fields: tuple[DeclaredField, ...]

    @property
    def field_names(self) -> str:
        """The names of its fields, as JSON, and the version of the encoding from 2 on. Requests
        between instances, and cursors, name the order of rows so."""
        names: list[object] = [field.path for field in self.fields]
        return orjson.dumps(names if ENCODING == 1 else [*names, ENCODING]).decode()

    @property
    def list_at(self) -> int | None:
        """The number of the field that is a list, from 0."""
        kinds = [field.type.kind in LISTS for field in self.fields]
        return kinds.index(True) if True in kinds else None

    @property
    def definition(self) -> list[list[str]]:
        """The name and type of each field, and the version of the encoding from 2 on: stores and
        instances from before there was one have the first. With another definition, the index is
        another one."""
        fields = [[field.name, field.text] for field in self.fields]
        return fields if ENCODING == 1 else [*fields, ["", str(ENCODING)]]

    def has_keys_of(self, definition: list[list[str]]) -> bool:
        """Whether its keys are those of an index with this definition. All fields may be null in
        an index, whatever they are declared as."""
        return _without_null(definition) == _without_null(self.definition)


def _without_null(definition: list[list[str]]) -> list[list[str]]:
    return [[name, *(text.replace("?", "") for text in more)] for name, *more in definition]


def parse_indexes(table: Any, fields: tuple[DeclaredField, ...]) -> tuple[DeclaredIndex, ...]:
    """The indexes of a table, in its order. ``fields``: the declared fields of the view. Raises
    TableError."""
    if not isinstance(table, Mapping) or not table:
        raise TableError((), 'must be a table of indexes with their fields: by-dest = ["dest"]')
    if len(table) > MAX_INDEXES:
        raise TableError((), f"has {len(table)} indexes; at most {MAX_INDEXES} are allowed")
    by_name = {field.name: field for field in fields}
    indexes: list[DeclaredIndex] = []
    for name, names in table.items():
        if not _NAME.fullmatch(name):
            raise TableError((name,), "is not a name: use up to 64 letters, digits, _ and -")
        if not isinstance(names, list) or not 1 <= len(names) <= MAX_FIELDS:
            raise TableError((name,), f'must be a list of 1 to {MAX_FIELDS} fields: ["dest"]')
        index = DeclaredIndex(name, tuple(_fields(name, names, by_name)))
        for other in indexes:
            if other.fields == index.fields:
                raise TableError((name,), f"has the same fields as {other.name}")
        indexes.append(index)
    return tuple(indexes)


def _fields(
    index: str, names: list[Any], by_name: Mapping[str, DeclaredField]
) -> Iterator[DeclaredField]:
    seen: set[str] = set()
    has_list = False
    for name in names:
        if not isinstance(name, str) or name not in by_name:
            known = ", ".join(islice(by_name, _MAX_NAMED)) or "none"
            raise TableError(
                (index,),
                f"{str(name)[:60]!r} is not a declared field: add it to the table of fields; "
                f"declared fields: {known}",
            )
        if name in seen:
            raise TableError((index,), f"{name!r} is in it twice")
        seen.add(name)
        field = by_name[name]
        if field.type.kind not in INDEXED_KINDS:
            raise TableError((index,), f"{name!r} is a {field.type.kind}, which cannot be indexed")
        if field.type.kind in LISTS:
            if has_list:
                raise TableError((index,), f"{name!r} is a second list: an index has at most one")
            has_list = True
        yield field
