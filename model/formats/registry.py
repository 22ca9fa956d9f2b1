"""All formats. A new format is a module next to this one, and a line here.

| format   | in Kafka (record bytes)    | in RocksDB            | in a URL       | in JSON         |
|----------|----------------------------|-----------------------|----------------|-----------------|
| string   | UTF-8                      | the same              | text           | string          |
| bytes    | any bytes                  | the same              | %-decoded text | base64url text  |
| int32    | 4 B big-endian             | sign bit flipped      | decimal        | number          |
| int64    | 8 B big-endian             | sign bit flipped      | decimal        | number, exact   |
| float64  | 8 B big-endian (IEEE 754)  | sign bit, or all bits | decimal        | number or text¹ |
|          |                            | of a negative flipped |                |                 |
| uuid     | its 36 characters          | the same              | text           | string          |
| json     | the document's exact bytes | the same              | the same bytes | the document    |
| none     | anything (values only)     | nothing               |                | null            |
| avro     | Avro, bare or framed       | the same              | JSON           | avro/texts.py   |
| protobuf | a message, bare or framed  | the same              | base64url      | JSON mapping    |

¹ "NaN", "Infinity" and "-Infinity", which JSON numbers cannot express.

In RocksDB, byte order is the order of the type, negative numbers first.
"""

from __future__ import annotations

from model.formats.avro.format import Avro
from model.formats.bytes import Bytes
from model.formats.codec import Codec
from model.formats.custom import CustomFormat
from model.formats.float64 import Float64
from model.formats.format import Format, SchemaFormat
from model.formats.integer import Integer
from model.formats.json import Json
from model.formats.none import NoValue
from model.formats.protobuf.format import Protobuf
from model.formats.string import String
from model.formats.uuid import Uuid

_FORMATS: tuple[Format, ...] = (
    String(),
    Bytes(),
    Integer("int32", 4, "IntegerSerde"),
    Integer("int64", 8, "LongSerde"),
    Float64(),
    Uuid(),
    Json(),
    NoValue(),
    Avro(),
    Protobuf(),
)
FORMATS: dict[str, Format] = {format_.name: format_ for format_ in _FORMATS}
"""By the name that `key = …` and `value = …` have in views.toml."""

VALUE_CODECS: dict[str, Codec] = {
    format_.name: format_.codec for format_ in _FORMATS if format_.codec is not None
}
"""The codecs that need no schema."""

KEY_CODECS: dict[str, Codec] = {
    name: codec for name, codec in VALUE_CODECS.items() if FORMATS[name].for_keys
}
SCHEMA_FORMATS: tuple[SchemaFormat, ...] = tuple(
    format_ for format_ in _FORMATS if isinstance(format_, SchemaFormat)
)


def format_of(name: str) -> Format:
    """The format that `key = …` or `value = …` in views.toml names. A class is its own format."""
    return FORMATS.get(name) or CustomFormat(name)
