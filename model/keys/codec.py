"""Keys that are named by fields of a document: `key_fields = ["id", "line"]`.

Connect, Debezium and registries write keys as documents: `{"id":4711}`, the same within
`{"schema":…,"payload":…}`, or Avro and Protobuf with the id of a schema. The bytes of a key depend
on spaces, the order of fields and schema ids, but their meaning does not. So all record keys with
the same fields are one key of the view. Its text has the values: `4711`, or `10,2` for two fields.
"""

from __future__ import annotations

from typing import Any

import orjson

from model.formats.codec import Codec, SchemaBytes
from model.formats.format import PythonForm, document, parse_json
from model.keys.order import stored, values_in
from model.keys.texts import Value, text_of, utf8, values_of
from model.rows import connect

MAX_FIELDS = 16

_CLIENT_TEXT = b"\xff"
"""The byte before the text of a key that a client has given. No record key starts with this byte:
JSON is UTF-8, and a schema's frame starts with 00."""

_AFTER_ALL = b"\xff\xff"
"""The bytes before the text of an upper bound with values of leading fields. The bound is after all
keys that start with these values."""


class KeyFields(Codec):
    """Keys that are named by fields of the documents of another codec."""

    keeps_bytes = False
    has_prefixes = True

    def __init__(self, codec: Codec, fields: tuple[str, ...]) -> None:
        self._codec = codec
        self._fields = fields
        self.name = codec.name
        self.needs_schemas = codec.needs_schemas

    def check(self, raw: bytes) -> None:
        self._values_of_record(raw)

    def derived_text(self, raw: bytes) -> str:
        """The key in derived views: the value of the field as text, or `10,2` for several fields.
        Raises ValueError."""
        values = self._values_of_record(raw)
        if len(values) > 1:
            return text_of(values)
        [value] = values
        if value is None:
            raise ValueError(f"{self._fields[0]} is null")
        return value

    def to_json(self, raw: bytes) -> bytes:
        return orjson.dumps(text_of(self._values(raw)))

    def to_store(self, raw: bytes) -> bytes:
        if raw.startswith(_AFTER_ALL):
            return stored(self._parse_text(raw[2:])) + b"\xff"
        return stored(self._values(raw))

    def from_store(self, stored: bytes) -> bytes:
        return _CLIENT_TEXT + text_of(values_in(stored)).encode()

    def from_text(self, text: bytes) -> bytes:
        if len(self._parse_text(text)) != len(self._fields):
            raise ValueError(f"it must have a value for each field: {', '.join(self._fields)}")
        return _CLIENT_TEXT + text

    def bound(self, text: bytes, is_last: bool) -> bytes:
        self._parse_text(text)
        return (_AFTER_ALL if is_last else _CLIENT_TEXT) + text

    def prefix(self, text: bytes) -> bytes:
        return stored(self._parse_text(text))

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        if isinstance(value, dict):
            return text_of(self._values_of_document(_parsed(written))).encode(), False
        if isinstance(value, str):
            return utf8(value).encode(), False
        if isinstance(value, list) or value is None:
            raise ValueError(f"neither text nor an object with {', '.join(self._fields)}")
        return written, False

    def without_frame(self, raw: bytes) -> SchemaBytes:
        return self._codec.without_frame(raw)

    @property
    def schema_document(self) -> Any:
        return self._codec.schema_document

    def _parse_text(self, text: bytes) -> tuple[Value, ...]:
        try:
            return values_of(text.decode(), len(self._fields))
        except UnicodeDecodeError as e:
            raise ValueError(f"not UTF-8 text: {e.reason} at byte {e.start}") from None

    def _values(self, raw: bytes) -> tuple[Value, ...]:
        return (
            self._parse_text(raw[1:])
            if raw.startswith(_CLIENT_TEXT)
            else self._values_of_record(raw)
        )

    def _values_of_record(self, raw: bytes) -> tuple[Value, ...]:
        self._codec.verify(raw)
        return self._values_of_document(_parsed(self._codec.to_json(raw)))

    def _values_of_document(self, parsed: Any) -> tuple[Value, ...]:
        payload = _payload(parsed)
        return tuple(_field(payload, name) for name in self._fields)


def payload_of(raw: bytes) -> dict[str, Any]:
    """The JSON object of a key, without Connect's schema. Raises ValueError if the key is not an
    object."""
    payload = _payload(_parsed(raw))
    if not isinstance(payload, dict):
        raise ValueError("not an object")
    return payload


def _parsed(written: bytes) -> Any:
    """The parsed JSON. Numbers with a fraction or an exponent are texts, because a double would
    change them."""
    return parse_json(written.decode(), parse_float=str)


def _payload(parsed: Any) -> Any:
    """The document without a schema. Connect's JsonConverter writes a schema next to each document,
    unless it is configured not to."""
    if isinstance(parsed, dict) and parsed.keys() == connect.MEMBERS:
        return parsed["payload"] if isinstance(parsed["payload"], dict) else parsed
    return parsed


def _field(parsed: Any, name: str) -> Value:
    """The value of `id`, or of `after.id`, where `after` is an object. Raises ValueError."""
    if isinstance(parsed, dict):
        if name in parsed:
            return _text_of_field(parsed[name], name)
        head, _, rest = name.partition(".")
        if rest and head in parsed:
            return _field(parsed[head], rest)
    raise ValueError(f"a document without the field {name}")


def _text_of_field(value: Any, name: str) -> Value:
    if isinstance(value, (dict, list)):
        raise ValueError(f"a document whose field {name} is not a single value")
    return None if value is None else _text_of_value(value)


def _text_of_value(value: Any) -> str:
    return utf8(value) if isinstance(value, str) else document(value).decode()


KEY_FIELDS = PythonForm(
    types=(str, int),
    to_text=lambda value: str(value).encode(),
    to_json=lambda value: document(str(value)),
    from_typed=str,
    is_typed_text=True,
    has_prefixes=True,
)
"""Keys with `key_fields`, in the client."""
