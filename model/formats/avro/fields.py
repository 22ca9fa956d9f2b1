"""The fields of an Avro record: those that a derived view can use, and those of its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from model.expressions.types import (
    BOOLEAN,
    DECIMAL_DIGITS,
    DOUBLE,
    LONGS,
    MAP,
    STRING,
    STRINGS,
    TIME,
    Kind,
    Type,
    parse_field_type,
)
from model.formats.avro.parsing import Named, parse_all
from model.formats.avro.schema import AvroSchema
from model.formats.format import ENVELOPE, MAX_FIELD_LEVELS, NO_ROW_FIELDS, DeclaredField

_LONG = parse_field_type("long")
_PRIMITIVES: Mapping[str, Type] = {
    "boolean": BOOLEAN,
    "int": parse_field_type("int"),
    "long": _LONG,
    "float": DOUBLE,
    "double": DOUBLE,
    "string": STRING,
}
_WHOLE_DIGITS = 18  # of a decimal without digits after the point, which fits in a long
_TIMES = ("timestamp-millis", "timestamp-micros")
_RECORDS = ("record", "error")
_TEXTS = frozenset(
    {"date", "time-millis", "time-micros", "local-timestamp-millis", "local-timestamp-micros"}
)
"""The logical types of numbers that are texts in JSON, and no times with a zone."""

TypeOf = Callable[[Any, Named], Type | None]


def declared_fields(content: bytes, *, unwrap: bool = False) -> Iterator[DeclaredField]:
    """The fields of a record, which may be in a union with null. ``unwrap``: those of the row in a
    change. Raises ValueError if it is not the schema of a record. Left out are lists, maps, bytes,
    dates, unions of several types, records within themselves, and decimals that would not be
    exact."""
    named, root = _parsed(content, ())
    node = _record(root, named)
    if node is None or node["type"] != "record":
        raise ValueError("it is not the schema of a record")
    if unwrap:
        node = _row(node, named)
    yield from _fields(node, named, _type_of)


def json_fields(content: str | bytes, references: Sequence[str] = ()) -> Iterator[DeclaredField]:
    """The fields of the JSON of values; none unless they are records, or null. ``references``: see
    `AvroSchema`. Left out are lists and maps of other values than texts and numbers, unions of
    several types, records within themselves, and what would not be exact. Raises ValueError."""
    named, root = _parsed(content, references)
    record = _record(root, named)
    if record is not None:
        yield from _fields(record, named, _type_in_json)


def _record(node: Any, named: Named) -> Mapping[str, Any] | None:
    """The definition of a record, which may be in a union with null; None for other types."""
    node, _ = _without_null(node)
    definition = named.get(node) if isinstance(node, str) else None
    return definition if definition is not None and definition["type"] in _RECORDS else None


def _row(change: Mapping[str, Any], named: Named) -> Mapping[str, Any]:
    """The record of the row in a change; the record itself if it has no ``op`` and ``after``."""
    types = {attribute["name"]: attribute["type"] for attribute in change["fields"]}
    if not types.keys() >= ENVELOPE:
        return change
    row = _record(types["after"], named)
    if row is None:
        raise ValueError(NO_ROW_FIELDS)
    return row


def _parsed(content: str | bytes, references: Sequence[str]) -> tuple[Named, Any]:
    AvroSchema(content, references)  # refuses what could be nested without limit
    return parse_all(content, references)


def _fields(
    record: Mapping[str, Any],
    named: Named,
    type_of: TypeOf,
    prefix: tuple[str, ...] = (),
    is_optional: bool = False,
    within: tuple[str, ...] = (),
) -> Iterator[DeclaredField]:
    """``within``: the names of the records that contain this one."""
    if len(prefix) >= MAX_FIELD_LEVELS or record["name"] in within:
        return
    within = (*within, record["name"])
    for attribute in record["fields"]:
        path = (*prefix, attribute["name"])
        node, may_be_null = _without_null(attribute["type"])
        node = named.get(node, node) if isinstance(node, str) else node
        may_be_null = may_be_null or is_optional
        if isinstance(node, dict) and node["type"] in _RECORDS:
            yield from _fields(node, named, type_of, path, may_be_null, within)
        elif (type_ := type_of(node, named)) is not None:
            yield path, type_.or_null(may_be_null)


def _without_null(node: Any) -> tuple[Any, bool]:
    """The other type of a union with null, and whether it was one. Other unions are returned as
    they are."""
    if isinstance(node, list) and "null" in node and len(node) == 2:
        return next(branch for branch in node if branch != "null"), True
    return node, False


def _type_of(node: Any, named: Named) -> Type | None:
    if isinstance(node, str):
        return _PRIMITIVES.get(node)
    if not isinstance(node, dict):
        return None
    logical = node.get("logicalType")
    if logical == "decimal":
        return _decimal(node["precision"], node["scale"])
    if node["type"] == "enum" or (node["type"] == "string" and logical in (None, "uuid")):
        return STRING
    if node["type"] == "long" and logical in _TIMES:
        return TIME
    return _PRIMITIVES.get(node["type"]) if logical is None else None


def _decimal(precision: int, scale: int) -> Type | None:
    if scale == 0:
        return _LONG if precision <= _WHOLE_DIGITS else None
    return Type(Kind.DECIMAL, scale=scale) if precision <= DECIMAL_DIGITS > scale else None


def _type_in_json(node: Any, named: Named) -> Type | None:
    """The type of a value in the JSON that `texts` and `AvroSchema` make of it."""
    if isinstance(node, str):
        return STRING if node == "bytes" else _PRIMITIVES.get(node)
    if not isinstance(node, dict):
        return None
    kind, logical = node["type"], node.get("logicalType")
    if kind == "array":
        return _list_in_json(node["items"], named)
    if kind == "map":
        return MAP if _is_scalar(node["values"], named) else None
    is_text = kind in ("bytes", "fixed") and logical != "decimal"
    return STRING if is_text or logical in _TEXTS else _type_of(node, named)


def _list_in_json(items: Any, named: Named) -> Type | None:
    node = named.get(items, items) if isinstance(items, str) else items
    if node in ("int", "long"):
        return LONGS
    # the numbers of decimals are texts there
    is_text = node == "string" or (isinstance(node, dict) and node["type"] in ("string", "enum"))
    return STRINGS if is_text else None


def _is_scalar(node: Any, named: Named) -> bool:
    """Whether a value is null, or a text, number or boolean in JSON."""
    if isinstance(node, list):
        return all(_is_scalar(branch, named) for branch in node)
    node = named.get(node, node) if isinstance(node, str) else node
    return isinstance(node, str) or node["type"] not in (*_RECORDS, "array", "map")
