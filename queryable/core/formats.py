"""Keys and values as Python has them, in each format of a view (docs/reference.md).

| format        | Python                                                                  |
|---------------|-------------------------------------------------------------------------|
| string        | str                                                                     |
| bytes         | bytes                                                                   |
| int32, int64  | int                                                                     |
| float64       | float                                                                   |
| uuid          | uuid.UUID                                                               |
| json          | the document: dict, list, str, int, float, bool, None                   |
| avro          | the document, as it is in JSON (docs/reference.md, Avro)                |
| none (values) | None                                                                    |

`Raw(b"…")` is a key's very record bytes, in any format: for JSON and Avro keys, of which JSON does
not tell every byte.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from model.formats.codecs import KEY_CODECS, Codec, from_base64url, to_base64url
from queryable.core.errors import BadUse

# what clients and proxies would resolve, and what a path cannot hold
_NO_SEGMENTS = (b"", b".", b"..")


def _fits_into_a_path(text: bytes) -> bool:
    return text not in _NO_SEGMENTS and b"\0" not in text


@dataclass(frozen=True, slots=True)
class Raw:
    """Record bytes, as they are."""

    data: bytes


def text_of_float(number: float) -> str:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


# not orjson: whole numbers of any size are JSON
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _document(value: Any) -> bytes:
    try:
        return _encode(value).encode()
    except (TypeError, ValueError, RecursionError) as e:
        raise BadUse(f"{value!r} is no JSON document: {e}.") from None


def _same(document: Any) -> Any:
    return document


@dataclass(frozen=True, slots=True)
class Format:
    """One format: `takes` are the Python types of its values."""

    name: str
    takes: tuple[type, ...]
    to_text: Callable[[Any], bytes]
    """As in a URL, before percent-encoding."""

    to_json: Callable[[Any], bytes]
    from_json: Callable[[Any], Any]
    codec: Codec | None = None

    def check(self, value: Any) -> None:
        """BadUse unless the value is of this format."""
        wrong = self.takes and not isinstance(value, self.takes)
        if wrong or (isinstance(value, bool) and self.takes):
            wanted = " or ".join(kind.__name__ for kind in self.takes)
            raise BadUse(f"{value!r} is no {self.name}: it takes {wanted}.")

    def record_bytes(self, value: Any) -> bytes | None:
        """What Kafka has of it; None where only a schema tells. BadUse."""
        if isinstance(value, Raw):
            return value.data
        text = self._as(self.to_text, value)
        if self.codec is None:
            return None
        try:
            return self.codec.from_text(text)
        except ValueError as e:
            raise BadUse(f"{value!r} is no {self.name}: {e}.") from None

    def _as(self, form: Callable[[Any], bytes], value: Any) -> bytes:
        self.check(value)
        try:
            return form(value)
        except (OverflowError, ValueError) as e:
            if isinstance(e, BadUse):
                raise
            raise BadUse(f"{value!r} is no {self.name}: {e}.") from None

    def parameter(self, value: Any) -> str:
        """In a query string, percent-encoded; BadUse."""
        return quote(self._as(self.to_text, value), safe="")

    def written(self, value: Any) -> bytes:
        """As a JSON document; BadUse."""
        return self._as(self.to_json, value)

    def segment(self, value: Any) -> tuple[str, bool]:
        """A URL's path segment or parameter, percent-encoded, and whether it is base64url of the
        record bytes; BadUse."""
        if isinstance(value, Raw):
            return to_base64url(value.data).decode(), True
        text = self._as(self.to_text, value)
        if not _fits_into_a_path(text):
            raw = self.record_bytes(value)
            assert raw is not None  # no document is as short
            return to_base64url(raw).decode(), True
        return quote(text, safe=""), False


FORMATS = {
    each.name: each
    for each in (
        Format("string", (str,), str.encode, _document, _same, KEY_CODECS["string"]),
        Format(
            "bytes",
            (bytes, bytearray),
            bytes,
            lambda value: b'"%b"' % to_base64url(value),
            lambda text: from_base64url(text.encode()),
            KEY_CODECS["bytes"],
        ),
        Format("int32", (int,), b"%d".__mod__, b"%d".__mod__, _same, KEY_CODECS["int32"]),
        Format("int64", (int,), b"%d".__mod__, b"%d".__mod__, _same, KEY_CODECS["int64"]),
        Format(
            "float64",
            (float, int),
            lambda value: text_of_float(float(value)).encode(),
            lambda value: KEY_CODECS["float64"].to_json(
                KEY_CODECS["float64"].from_text(text_of_float(float(value)).encode())
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
        Format("json", (), _document, _document, _same, KEY_CODECS["json"]),
        Format("avro", (), _document, _document, _same),
        Format("none", (), _document, lambda _: b"null", lambda _: None),
    )
}
