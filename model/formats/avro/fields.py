"""The fields of an Avro record that a derived view can use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from model.expressions.types import (
    BOOLEAN,
    DECIMAL_DIGITS,
    DOUBLE,
    STRING,
    TIME,
    Kind,
    Type,
    parse_field_type,
)
from model.formats.avro.parsing import Named, parse_all
from model.formats.avro.schema import AvroSchema
from model.formats.format import MAX_FIELD_LEVELS, DeclaredField

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


def declared_fields(content: bytes) -> Iterator[DeclaredField]:
    """Raises ValueError if it is not the schema of a record. Left out are lists, maps, bytes, dates
    and unions of several types, and decimals that would not be exact."""
    AvroSchema(content)  # refuses what could be nested without limit
    named, root = parse_all(content, ())
    node = named.get(root) if isinstance(root, str) else None
    if node is None or node["type"] != "record":
        raise ValueError("it is not the schema of a record")
    yield from _fields(node, named, (), False)


def _fields(
    record: Mapping[str, Any], named: Named, prefix: tuple[str, ...], is_optional: bool
) -> Iterator[DeclaredField]:
    if len(prefix) >= MAX_FIELD_LEVELS:
        return
    for attribute in record["fields"]:
        path = (*prefix, attribute["name"])
        node, may_be_null = _without_null(attribute["type"])
        node = named.get(node, node) if isinstance(node, str) else node
        may_be_null = may_be_null or is_optional
        if isinstance(node, dict) and node["type"] in ("record", "error"):
            yield from _fields(node, named, path, may_be_null)
        elif (type_ := _type_of(node)) is not None:
            yield path, type_.or_null(may_be_null)


def _without_null(node: Any) -> tuple[Any, bool]:
    """The other type of a union with null, and whether it was one. Other unions are returned as
    they are."""
    if isinstance(node, list) and "null" in node and len(node) == 2:
        return next(branch for branch in node if branch != "null"), True
    return node, False


def _type_of(node: Any) -> Type | None:
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
