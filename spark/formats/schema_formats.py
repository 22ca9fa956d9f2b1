"""Formats with a schema, by the names that they have in views.toml."""

from __future__ import annotations

from spark.errors import JobError
from spark.formats.avro import AvroFormat
from spark.formats.protobuf import ProtobufFormat


def schema_format(
    name: str,
    schema: bytes,
    *,
    message: str = "",
    is_framed: bool = False,
    column: str | None = None,
    is_partial: bool = False,
) -> AvroFormat | ProtobufFormat:
    """A format that reads and writes: ``avro`` or ``protobuf``. ``schema``: the content of its
    file. ``is_partial``: fields of Avro that have no Spark type are left out. Raises ``JobError``
    if it cannot be used."""
    made: AvroFormat | ProtobufFormat
    if name == "avro":
        try:
            made = AvroFormat(schema.decode(), is_framed, column, is_partial)
        except UnicodeDecodeError as error:
            raise JobError(f"the Avro schema is not UTF-8: {error}") from None
    elif name == "protobuf":
        made = ProtobufFormat(schema, message, is_framed, column)
    else:
        raise JobError(f"no format {name} with a schema; there are avro and protobuf")
    _ = made.columns
    return made
