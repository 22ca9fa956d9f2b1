"""The fields that a schema declares, for ``[sources.NAME]`` and ``derive``: names with dots, and
their types. What has no type here is left out: lists, maps, bytes, and unions of several types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from model.derive.derivation import RECORD_FIELDS, ValueSchema
from model.derive.fields import MAX_PATH
from model.derive.reading import TableError, read_text
from model.expressions.tree import Field
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
from model.formats.format import Read
from model.formats.schemas import CONFLUENT

JSON, TEXT, AVRO = "json", "text", "avro"
MAX_SCHEMA_FIELDS = 1000
_INT, _LONG = parse_field_type("int"), parse_field_type("long")
_PRIMITIVES: Mapping[str, Type] = {
    "boolean": BOOLEAN,
    "int": _INT,
    "long": _LONG,
    "float": DOUBLE,
    "double": DOUBLE,
    "string": STRING,
}
_WHOLE_DIGITS = 18  # of a decimal without digits after the point, which fits in a long
_TIMES = ("timestamp-millis", "timestamp-micros")


@dataclass(frozen=True, slots=True)
class SchemaFields:
    """``schema``: how values are decoded. ``fields``: by the names that expressions use. A name
    with dots has a ``Field`` with another name, because a column has no dots in its name.
    ``paths``: name of such a ``Field`` ► names of the members that lead to it."""

    schema: ValueSchema
    fields: dict[str, Field] = field(default_factory=dict)
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()


def parse_format(table: Mapping[str, Any]) -> str:
    """The format of the values. Raises TableError."""
    has_fields = "fields" in table
    format_ = table.get("format", JSON if has_fields else TEXT)
    if format_ not in (JSON, TEXT, AVRO):
        raise TableError(
            ("format",),
            f'{format_!r} is not a format of sources; allowed: "{JSON}", "{TEXT}" and "{AVRO}". '
            "For Protobuf, write the view in Python",
        )
    if format_ == JSON and not has_fields:
        raise TableError(
            ("format",), f'"{JSON}" needs the fields of the values: fields = {{ id = "string" }}'
        )
    if format_ == TEXT:
        for key in ("fields", "unwrap", "null_deletes", "value_schema"):
            if key in table:
                raise TableError((key,), _NO_FIELDS if key != "fields" else _TEXT_HAS_NONE)
    if format_ != AVRO and "schema" in table:
        raise TableError(("schema",), f'only with format = "{AVRO}"')
    return str(format_)


_NO_FIELDS = "only with fields: the rows are JSON objects"
_TEXT_HAS_NONE = f'only with format = "{JSON}": a text has no fields'


def parse_schema(table: Mapping[str, Any], read: Read) -> SchemaFields | None:
    """What the file ``schema`` declares; None if the values have no such schema. Raises
    TableError."""
    if parse_format(table) != AVRO:
        return None
    for key in ("fields", "unwrap", "null_deletes"):
        if key in table:
            raise TableError((key,), f'not with format = "{AVRO}": the schema declares the fields')
    if "schema" not in table:
        raise TableError((), 'schema is missing: schema = "order.avsc", a file with the fields')
    name = read_text(table["schema"], ("schema",), 'a file such as "order.avsc"')
    try:
        text = read(name)
        found = dict(_avro_fields(text))
    except ValueError as e:
        raise TableError(("schema",), f"{name}: {e}") from None
    if not found:
        raise TableError(("schema",), f"{name}: no field has a type that a view can use")
    is_framed = table.get("value_schema") == CONFLUENT
    schema = ValueSchema(AVRO, text.decode(), is_framed)
    declared = SchemaFields(schema, *_named(found))
    for reserved in RECORD_FIELDS:
        if reserved in declared.fields:
            raise TableError(("schema",), f"{name}: {reserved} is the name of a field of records")
    return declared


def _named(
    found: Mapping[tuple[str, ...], Type],
) -> tuple[dict[str, Field], tuple[tuple[str, tuple[str, ...]], ...]]:
    fields, paths, columns = {}, [], set()
    for path, type_ in found.items():
        column = "__".join(path)
        if column.lower() in columns:
            continue  # Spark ignores the case of names
        columns.add(column.lower())
        fields[".".join(path)] = Field(column, type_)
        if len(path) > 1:
            paths.append((column, path))
    return fields, tuple(paths)


def _avro_fields(text: bytes) -> Iterator[tuple[tuple[str, ...], Type]]:
    """Path ► type. Raises ValueError if the text is not the schema of a record."""
    AvroSchema(text)  # refuses what could be nested without limit
    named, root = parse_all(text, ())
    node = named.get(root) if isinstance(root, str) else None
    if node is None or node["type"] != "record":
        raise ValueError("it is not the schema of a record")
    for count, declared in enumerate(_fields_of_record(node, named, (), False)):
        if count == MAX_SCHEMA_FIELDS:
            raise ValueError(f"it has more than {MAX_SCHEMA_FIELDS} fields")
        yield declared


def _fields_of_record(
    record: Mapping[str, Any], named: Named, prefix: tuple[str, ...], is_optional: bool
) -> Iterator[tuple[tuple[str, ...], Type]]:
    if len(prefix) >= MAX_PATH:
        return
    for attribute in record["fields"]:
        path = (*prefix, attribute["name"])
        node, may_be_null = _without_null(attribute["type"])
        node = named.get(node, node) if isinstance(node, str) else node
        may_be_null = may_be_null or is_optional
        if isinstance(node, dict) and node["type"] in ("record", "error"):
            yield from _fields_of_record(node, named, path, may_be_null)
        elif (type_ := _type_of(node)) is not None:
            yield path, type_.or_null(may_be_null)


def _without_null(node: Any) -> tuple[Any, bool]:
    """The type of a union with null, and whether it was one. Other unions are returned as they
    are."""
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
    """The type of a decimal. One with more digits is left out, because it would not be exact."""
    if scale == 0:
        return replace(_LONG) if precision <= _WHOLE_DIGITS else None
    return Type(Kind.DECIMAL, scale=scale) if precision <= DECIMAL_DIGITS > scale else None
