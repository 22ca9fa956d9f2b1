"""The format of values in ``[sources.NAME]`` and ``derive``, and the names and types of the fields
that a schema declares. The name of a nested field has dots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from model.derive.derivation import RECORD_FIELDS, ValueSchema
from model.derive.fields import Paths, parse_fields, parse_paths
from model.derive.reading import TableError, read_text
from model.expressions.tree import Field
from model.expressions.types import Type
from model.formats.format import Format, Read
from model.formats.registry import FORMATS
from model.formats.schemas import CONFLUENT
from model.rows.reader import DEBEZIUM
from model.view_field import join_quoted

JSON, TEXT = "json", "text"
VALUE_KEYS = ("format", "schema", "message", "fields")
"""The keys that declare the fields of values."""

MAX_SCHEMA_FIELDS = 1000
_WITH_SCHEMA: Mapping[str, Format] = {
    name: format_ for name, format_ in FORMATS.items() if format_.declares_fields
}
_NO_FIELDS = "only with fields: the rows are JSON objects"


@dataclass(frozen=True, slots=True)
class SchemaFields:
    """``schema``: how values are decoded; None if they are JSON. ``fields``: by the names that
    expressions use. A name with dots has a ``Field`` with another name, because a column has no
    dots in its name. ``paths``: name of such a ``Field`` ► names of the members that lead to it."""

    schema: ValueSchema | None
    fields: dict[str, Field]
    paths: Paths


def parse_format(table: Mapping[str, Any]) -> str:
    """The format of the values. Raises TableError."""
    has_fields = "fields" in table
    format_ = table.get("format", JSON if has_fields else TEXT)
    if format_ not in (TEXT, *_WITH_SCHEMA):
        known = join_quoted((TEXT, *_WITH_SCHEMA))
        raise TableError(("format",), f"{format_!r} is not a format of values; allowed: {known}")
    if format_ == JSON and not has_fields and "schema" not in table:
        raise TableError(
            ("format",),
            f'"{JSON}" needs the fields of the values: fields = {{ id = "string" }}, or a file '
            'with a JSON Schema: schema = "order.json"',
        )
    if format_ == TEXT:
        for key in ("fields", "unwrap", "null_deletes", "value_schema"):
            if key in table:
                reason = f'not with format = "{TEXT}": a text has no fields'
                raise TableError((key,), reason if key == "fields" else _NO_FIELDS)
    return str(format_)


def parse_values(table: Mapping[str, Any], read: Read) -> SchemaFields:
    """The fields of values: those that a schema declares, or ``fields`` of the table; none if a
    value is text. Raises TableError."""
    declared = parse_schema(table, read)
    if declared is not None:
        return declared
    if "fields" not in table:
        return SchemaFields(None, {}, ())
    fields = parse_fields(table["fields"], ("fields",))
    return SchemaFields(None, fields, parse_paths(table["fields"], ("fields",)))


def parse_schema(table: Mapping[str, Any], read: Read) -> SchemaFields | None:
    """What the file ``schema`` declares; None if the values have no such schema. Raises
    TableError."""
    name = parse_format(table)
    format_ = _WITH_SCHEMA.get(name)
    for key in ("schema", "message"):
        if key in table and (format_ is None or key not in format_.fields):
            allowed = [other for other, known in _WITH_SCHEMA.items() if key in known.fields]
            raise TableError((key,), f"only with format = {join_quoted(allowed)}")
    if format_ is None or (name == JSON and "schema" not in table):
        return None
    if "fields" in table:
        raise TableError(("fields",), f'not with format = "{name}": the schema declares the fields')
    for key, meaning in format_.fields.items():
        if key not in table:
            raise TableError((), f"{key} is missing: {key} = …, {meaning.partition(', or')[0]}")
    file = read_text(table["schema"], ("schema",), "the name of a file")
    message = read_text(table["message"], ("message",), "a type") if "message" in table else ""
    try:
        content = read(file)
        unwrap = table.get("unwrap") == DEBEZIUM
        declared = format_.declared_fields(content, message, unwrap=unwrap)
        types = dict(islice(declared, MAX_SCHEMA_FIELDS + 1))
    except ValueError as e:
        raise TableError(("schema",), f"{file}: {e}") from None
    if not types:
        raise TableError(("schema",), f"{file}: no field has a type that a view can use")
    if len(types) > MAX_SCHEMA_FIELDS:
        raise TableError(("schema",), f"{file}: has more than {MAX_SCHEMA_FIELDS} fields")
    for path in types:
        if path[0] in RECORD_FIELDS:
            raise TableError(("schema",), f"{file}: {path[0]} is the name of a field of records")
    is_framed = table.get("value_schema") == CONFLUENT
    schema = None if name == JSON else ValueSchema(name, content, message, is_framed)
    return SchemaFields(schema, *_named(types))


def _named(types: Mapping[tuple[str, ...], Type]) -> tuple[dict[str, Field], Paths]:
    fields, paths, columns = {}, [], set()
    for path, type_ in types.items():
        column = "__".join(path)
        if column.lower() in columns:
            continue  # Spark ignores the case of names
        columns.add(column.lower())
        fields[".".join(path)] = Field(column, type_)
        if len(path) > 1:
            paths.append((column, path))
    return fields, tuple(paths)
