"""Parses ``[views.NAME.derive.join.STREAM]`` with ``within``: pairs of the records of two streams
whose times are near each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from model.derive.derivation import Derivation, Join
from model.derive.reading import TableError, check_keys, read_duration, read_expression
from model.derive.rows import ROW_KEYS
from model.derive.schema_fields import VALUE_KEYS, SchemaFields
from model.expressions.tree import Expression, fields_of
from model.expressions.types import Kind

MAX_TEXT = 1000
"""Characters of a string of the joined stream, which can become a key or a part of the value."""

_TIME_KEYS = ("time", "lateness", "earliness")
_OF_STREAM = ("from", *VALUE_KEYS, *_TIME_KEYS, *ROW_KEYS)
_KEYS = ("on", "key", "within", *_OF_STREAM)
_RECORD_KEY = "record_key"

Parse = Callable[[Any], Derivation]


def has_within(table: Mapping[str, Any]) -> bool:
    """Whether the table ``derive`` joins two streams."""
    joins = table.get("join")
    return isinstance(joins, dict) and any(
        isinstance(join, dict) and "within" in join for join in joins.values()
    )


def parse_stream_join(
    name: str,
    declared: Mapping[str, Any],
    values: SchemaFields,
    names: Mapping[str, Expression],
    parse: Parse,
) -> Join:
    """Parse a join with ``within``. ``values``: the fields of the other stream. ``parse`` parses a
    table ``derive``. Raises TableError."""
    path = ("join", name)
    check_keys(declared, _KEYS, path)
    within = read_duration(declared["within"], (*path, "within"))
    on = read_expression(declared["on"], (*path, "on"), names, Kind.STRING, Kind.INTEGER)
    stream = {key: declared[key] for key in _OF_STREAM if key in declared}
    conditions = [f"({field} is null or length({field}) <= {MAX_TEXT})"
                  for field, declaration in values.fields.items()
                  if declaration.type.kind is Kind.STRING]  # fmt: skip
    if conditions:
        stream["require"] = " and ".join(conditions)
    if "key" not in declared:
        stream["where"] = f"{_RECORD_KEY} is not null"
    stream |= {"key": declared.get("key", _RECORD_KEY), "count": True}
    stream.setdefault("time", "record_timestamp")
    try:
        derivation = parse(stream)
    except TableError as e:
        raise TableError((*path, *e.path), str(e)) from None
    [other, *more] = derivation.key
    if more or other.type.kind is not on.type.kind:
        raise TableError(
            (*path, "on"), f"is a {on.type.kind}, and key is a {other.type.kind}; cast one of them"
        )
    return Join(
        name, derivation.source, on, derivation.fields, derivation.rows, derivation.paths,
        within=within, stream=derivation, schema=derivation.schema,
        key_fields=derivation.key_fields,
    )  # fmt: skip


def check_pairs(derivation: Derivation) -> None:
    """Raise TableError if the view has a key that a join of two streams does not allow."""
    join = derivation.pairs
    if join is None:
        return
    path = ("join", join.name)
    if len(derivation.joins) > 1:
        raise TableError(
            path, "a view that joins two streams has no other join: join its topic in another view"
        )
    if derivation.is_table:
        raise TableError(
            (*path, "within"),
            'only for two streams, and from has kind = "table": omit within, so that the view '
            "follows the changes of both",
        )
    if derivation.aggregates:
        function = derivation.aggregates[0].function
        raise TableError(
            (function,),
            "not with a join of two streams, which Spark cannot aggregate. Write two views: "
            f"this one without {function}, and one whose from is its topic, with "
            'kind = "table"',
        )
    if derivation.points:
        raise TableError(("points",), "not with a join of two streams: put the time into key")
    used = set[str]().union(*map(fields_of, derivation.key))
    if not used & join.names or not used - join.names:
        side = join.name if used - join.names else derivation.source
        raise TableError(
            ("key",),
            f"has no field of {side}. A record may be in several pairs, and each pair needs a key "
            f"of its own: key = \"concat(id, '-', {join.name}.id)\"",
        )
