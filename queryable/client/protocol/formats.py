"""Keys and values as Python values, for each format of a view (docs/reference/formats.md).

| format        | Python                                                                  |
|---------------|-------------------------------------------------------------------------|
| string        | str                                                                     |
| bytes         | bytes                                                                   |
| int32, int64  | int                                                                     |
| float64       | float                                                                   |
| uuid          | uuid.UUID                                                               |
| json          | the document: dict, list, str, int, float, bool, None                   |
| avro          | the document as JSON (docs/reference/formats.md, Avro)                  |
| none (values) | None                                                                    |

`Raw(b"…")` gives a key by its record bytes, in any format. JSON and Avro keys may need it, because
one document can be written in several ways.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from model.formats.codecs import KEY_CODECS, Codec, from_base64url, to_base64url
from queryable.client.protocol.errors import BadUse

# HTTP clients and proxies resolve or drop these path segments
_RESOLVED_SEGMENTS = (b"", b".", b"..")


def _is_path_segment(text: bytes) -> bool:
    return text not in _RESOLVED_SEGMENTS and b"\0" not in text


@dataclass(frozen=True, slots=True)
class Raw:
    """A key, as its record bytes."""

    data: bytes


def float_text(number: float) -> str:
    """As the API writes it: NaN and the infinities have names."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


# not orjson: it rejects whole numbers of more than 64 bits
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _document(value: Any) -> bytes:
    try:
        return _encode(value).encode()
    except (TypeError, ValueError, RecursionError) as e:
        raise BadUse(f"{value!r} is not a JSON document: {e}.") from None


def _identity(document: Any) -> Any:
    return document


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `types`: the Python types of its values; empty: any JSON document."""

    name: str
    types: tuple[type, ...]
    to_text: Callable[[Any], bytes]
    """As in a URL, before it is percent-encoded."""

    to_json: Callable[[Any], bytes]
    from_json: Callable[[Any], Any]
    codec: Codec | None = None

    def check(self, value: Any) -> None:
        """BadUse unless the value has a type of this format."""
        if not self.types:
            return
        # bool is a subclass of int
        if isinstance(value, bool) or not isinstance(value, self.types):
            expected = " or ".join(kind.__name__ for kind in self.types)
            raise BadUse(f"{value!r} is not a valid {self.name}: expected {expected}.")

    def record_bytes(self, value: Any) -> bytes | None:
        """A key as in its Kafka record; None if that takes a schema (Avro). BadUse."""
        if isinstance(value, Raw):
            return value.data
        text = self._convert(self.to_text, value)
        if self.codec is None:
            return None
        try:
            return self.codec.from_text(text)
        except ValueError as e:
            raise BadUse(f"{value!r} is not a valid {self.name}: {e}.") from None

    def _convert(self, conversion: Callable[[Any], bytes], value: Any) -> bytes:
        self.check(value)
        try:
            return conversion(value)
        except (OverflowError, ValueError) as e:
            if isinstance(e, BadUse):
                raise
            raise BadUse(f"{value!r} is not a valid {self.name}: {e}.") from None

    def parameter(self, value: Any) -> str:
        """For a query string, percent-encoded; BadUse."""
        return quote(self._convert(self.to_text, value), safe="")

    def json_bytes(self, value: Any) -> bytes:
        """As a JSON document; BadUse."""
        return self._convert(self.to_json, value)

    def path_segment(self, value: Any) -> tuple[str, bool]:
        """For a URL's path, percent-encoded; and whether it is base64url of the record bytes.
        BadUse."""
        if isinstance(value, Raw):
            return to_base64url(value.data).decode(), True
        text = self._convert(self.to_text, value)
        if not _is_path_segment(text):
            raw = self.record_bytes(value)
            assert raw is not None  # no Avro document is that short
            return to_base64url(raw).decode(), True
        return quote(text, safe=""), False


FORMATS = {
    each.name: each
    for each in (
        Format("string", (str,), str.encode, _document, _identity, KEY_CODECS["string"]),
        Format(
            "bytes",
            (bytes, bytearray),
            bytes,
            lambda value: b'"%b"' % to_base64url(value),
            lambda text: from_base64url(text.encode()),
            KEY_CODECS["bytes"],
        ),
        Format("int32", (int,), b"%d".__mod__, b"%d".__mod__, _identity, KEY_CODECS["int32"]),
        Format("int64", (int,), b"%d".__mod__, b"%d".__mod__, _identity, KEY_CODECS["int64"]),
        Format(
            "float64",
            (float, int),
            lambda value: float_text(float(value)).encode(),
            lambda value: KEY_CODECS["float64"].to_json(
                KEY_CODECS["float64"].from_text(float_text(float(value)).encode())
            ),
            float,
            KEY_CODECS["float64"],
        ),
        Format(
            "uuid",
            (uuid.UUID, str),
            lambda value: str(value).encode(),
            lambda value: _document(str(value)),
            uuid.UUID,
            KEY_CODECS["uuid"],
        ),
        Format("json", (), _document, _document, _identity, KEY_CODECS["json"]),
        Format("avro", (), _document, _document, _identity),
        Format("none", (), _document, lambda _: b"null", lambda _: None),
    )
}
