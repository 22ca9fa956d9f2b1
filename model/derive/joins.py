"""Parses ``[views.NAME.derive.join.TABLE]``: topics that add fields to the records of ``from``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.derive.derivation import Derivation, Join
from model.derive.fields import parse_fields, parse_paths, parse_topic
from model.derive.reading import TableError, check_keys, check_new, read_expression, read_table
from model.derive.rows import ROW_KEYS, parse_rows
from model.expressions.tree import Expression, Field, fields_of
from model.expressions.types import Kind

MAX_JOINS = 8
_REQUIRED = ("from", "on", "fields")
_KEYS = (*_REQUIRED, *ROW_KEYS)


def parse_joins(table: Mapping[str, Any], names: dict[str, Expression]) -> tuple[Join, ...]:
    """Parse the joins, and add the fields of their tables to ``names``, as ``plane.model``. These
    fields may be null, because a record may have no row. Raises TableError."""
    if "join" not in table:
        return ()
    path = ("join",)
    meaning = 'join.plane = { from = "planes", on = "tailnum", fields = { model = "string" } }'
    found: list[Join] = []
    for name, given in read_table(table["join"], path, MAX_JOINS, meaning).items():
        check_new(name, names, (*path, name))
        if not isinstance(given, dict):
            raise TableError((*path, name), f"must be a table: {meaning}")
        check_keys(given, _KEYS, (*path, name))
        for key in _REQUIRED:
            if key not in given:
                raise TableError((*path, name), f"{key} is missing: {meaning}")
        source = parse_topic(given["from"], (*path, name, "from"))
        if source == table.get("from") or source in {each.source for each in found}:
            raise TableError((*path, name, "from"), f"{source} is read twice")
        on = read_expression(given["on"], (*path, name, "on"), names, Kind.STRING)
        fields = parse_fields(given["fields"], (*path, name, "fields"))
        types = tuple((each, of.type) for each, of in fields.items())
        paths = parse_paths(given["fields"], (*path, name, "fields"))
        found.append(Join(name, source, on, types, parse_rows(given, (*path, name)), paths))
    for join in found:
        for field, of in join.fields:
            names[f"{join.name}.{field}"] = Field(f"{join.name}.{field}", of.or_null())
    return tuple(found)


def check_places(derivation: Derivation) -> None:
    """Raise TableError if the fields of a table are used where they are not available yet."""
    joined = derivation.joined_fields
    places: list[tuple[str, Expression | None]] = [
        ("require", derivation.require),
        ("time", derivation.time.of if derivation.time else None),
        ("each", derivation.each[1] if derivation.each else None),
    ]
    if len(derivation.key) > 1:
        places += [("key", part) for part in derivation.key]
    for key, expression in places:
        used = set() if expression is None else fields_of(expression) & joined.keys()
        if used:
            where = "a key of several parts" if key == "key" else key
            raise TableError((key,), f"{where} cannot have {min(used)}, a field of a join")
