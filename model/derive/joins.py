"""Parses ``[views.NAME.derive.join.TABLE]``: topics that add fields to the records of ``from``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.derive.derivation import Derivation, Join
from model.derive.fields import parse_topic
from model.derive.reading import TableError, check_keys, check_new, read_expression, read_table
from model.derive.rows import ROW_KEYS, parse_keys, parse_rows
from model.derive.schema_fields import VALUE_KEYS, SchemaFields, parse_values
from model.derive.stream_joins import Parse, parse_stream_join
from model.expressions.tree import Expression, Field, fields_of
from model.expressions.types import Kind
from model.formats.format import Read

MAX_JOINS = 8
_REQUIRED = ("from", "on")
_KEYS = (*_REQUIRED, *VALUE_KEYS, "static", *ROW_KEYS)
_OUTER = (
    "a join is a left join: fields are null without a row. For an inner join, write "
    'where = "{} is not null"'
)
_HINTS = {
    "type": _OUTER,
    "how": _OUTER,
    "inner": _OUTER,
    "left": _OUTER,
    "key": "on is compared with the record keys of the table. For two streams, "
    'write within = "1h", too',
    "select": "the fields of the table are in fields, and the value of the view is in its select",
}
"""What to write instead of a key that users of SQL may expect."""


def parse_joins(
    table: Mapping[str, Any], names: dict[str, Expression], parse: Parse, read: Read
) -> tuple[Join, ...]:
    """Parse the joins, and add the fields of their tables to ``names``, as ``plane.model``. These
    fields may be null, because a record may have no row. ``parse`` parses a table ``derive``, and
    ``read`` reads files with schemas. Raises TableError."""
    if "join" not in table:
        return ()
    path = ("join",)
    meaning = 'join.plane = { from = "planes", on = "tailnum", fields = { model = "string" } }'
    joins: dict[str, tuple[Join, SchemaFields]] = {}
    for name, declared in read_table(table["join"], path, MAX_JOINS, meaning).items():
        check_new(name, names, (*path, name))
        if not isinstance(declared, dict):
            raise TableError((*path, name), f"must be a table: {meaning}")
        is_stream = "within" in declared
        if not is_stream and (hinted := next((key for key in declared if key in _HINTS), None)):
            field = next(iter(declared.get("fields") or ["field"]))
            raise TableError((*path, name, hinted), _HINTS[hinted].format(f"{name}.{field}"))
        if not is_stream:
            check_keys(declared, _KEYS, (*path, name))
        has_fields = "fields" in declared or "format" in declared
        for key in (*_REQUIRED, *(() if has_fields else ("fields",))):
            if key not in declared:
                raise TableError((*path, name), f"{key} is missing: {meaning}")
        source = parse_topic(declared["from"], (*path, name, "from"))
        if source == table.get("from") or source in {join.source for join, _ in joins.values()}:
            raise TableError((*path, name, "from"), f"{source} is read twice")
        values = _parse_values(name, declared, read)
        if is_stream:
            joins[name] = parse_stream_join(name, declared, values, names, parse), values
            continue
        kinds = (Kind.STRING, Kind.INTEGER)
        on = read_expression(declared["on"], (*path, name, "on"), names, *kinds)
        static = declared.get("static", False)
        if type(static) is not bool:
            raise TableError((*path, name, "static"), f"{static!r} is not true or false")
        join = Join(
            name,
            source,
            on,
            tuple((field.name, field.type) for field in values.fields.values()),
            parse_rows(declared, values.schema, (*path, name)),
            values.paths,
            static,
            schema=values.schema,
            key_fields=parse_keys(declared, values.fields, (*path, name)),
        )
        joins[name] = join, values
    for join, values in joins.values():
        for written, field in values.fields.items():
            type_ = field.type.or_null() if join.stream is None else field.type
            names[f"{join.name}.{written}"] = Field(f"{join.name}.{field.name}", type_)
    return tuple(join for join, _ in joins.values())


def _parse_values(name: str, declared: Mapping[str, Any], read: Read) -> SchemaFields:
    """The fields of the table that is joined. Raises TableError."""
    path = ("join", name)
    try:
        values = parse_values(declared, read)
    except TableError as e:
        raise TableError((*path, *e.path), str(e)) from None
    if not values.fields:
        raise TableError((*path, "format"), "a join needs fields: the values cannot be text")
    return values


def check_places(derivation: Derivation) -> None:
    """Raise TableError if a step that runs without the joined tables uses their fields."""
    joined = derivation.joined_fields
    places: list[tuple[str, Expression | None]] = [
        ("require", derivation.require),
        ("time", derivation.time.expression if derivation.time else None),
        ("each", derivation.each[1] if derivation.each else None),
    ]
    if len(derivation.key) > 1:
        places += [("key", part) for part in derivation.key]
    for key, expression in places:
        used = set() if expression is None else fields_of(expression) & joined.keys()
        if used:
            where = "a key of several parts" if key == "key" else key
            raise TableError((key,), f"{where} cannot have {min(used)}, a field of a join")


def check_changing(table: Mapping[str, Any], derivation: Derivation) -> None:
    """Raise TableError if the view cannot follow the changes of a table that it joins."""
    if not derivation.changing:
        return
    join = derivation.changing[0]
    path = ("join", join.name)
    if derivation.aggregates:
        function = derivation.aggregates[0].function
        raise TableError(
            path,
            f"{join.source} may change, and {function} cannot take back what it has counted with "
            "an earlier row. Write static = true if the topic never gets another record. Otherwise "
            f"write two views: this one without {function}, and one whose from is its topic, with "
            'kind = "table"',
        )
    if derivation.points:
        raise TableError(
            ("points",), f"not with {join.name}, a table that changes: put the time into key"
        )
    for part in derivation.key:
        if used := fields_of(part) & set[str]().union(
            *(join.names for join in derivation.changing)
        ):
            raise TableError(
                ("key",),
                f"cannot have {min(used)}, because the table may change, and an entry would then "
                "have another key. Use it in select and where, or write static = true in the join",
            )
