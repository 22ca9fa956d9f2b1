"""The formats of keys and values in Kafka, in RocksDB, in a URL and in JSON.

| format  | in Kafka (record bytes)    | in RocksDB            | in a URL       | in JSON          |
|---------|----------------------------|-----------------------|----------------|------------------|
| string  | UTF-8                      | the same              | text           | string           |
| bytes   | any bytes                  | the same              | %-decoded text | base64url string |
| int32   | 4 B big-endian             | sign bit flipped      | decimal        | number           |
| int64   | 8 B big-endian             | sign bit flipped      | decimal        | number, exact    |
| float64 | 8 B big-endian (IEEE 754)  | sign bit, or all bits | decimal        | number, or text¹ |
|         |                            | of a negative flipped |                |                  |
| uuid    | its 36 characters          | the same              | text           | string           |
| json    | the document's exact bytes | the same              | its very bytes | the document     |
| none    | anything (values only)     | nothing               |                | null             |

¹ "NaN", "Infinity" and "-Infinity", which JSON numbers cannot express.

In RocksDB, byte order is the order of the type, negative numbers first. Numbers are encoded as by
Kafka's serializers (`IntegerSerializer`, `LongSerializer`, `DoubleSerializer`).
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import orjson

_DECIMAL = re.compile(r"-?[0-9]{1,20}", re.ASCII)
# linear time: no two parts of it can match the same digits
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|-?Infinity", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


class Codec(Protocol):
    """One format. Methods raise ValueError for invalid input; its text is for people."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int | None:
        """Size in bytes of every stored key; None if it varies."""

    @property
    def keeps_bytes(self) -> bool:
        """Whether `to_store` returns its argument unchanged."""

    @property
    def probe(self) -> Callable[[bytes], object]:
        """Like `check`, but without a text for people: ValueError unless the bytes are valid.

        Called for every record, so it should be a C function.
        """

    def check(self, raw: bytes) -> None:
        """Raise ValueError unless `raw` (record bytes) is valid in this format."""

    def to_store(self, raw: bytes) -> bytes:
        """Record bytes to stored bytes, whose byte order is the type's order."""

    def from_store(self, stored: bytes) -> bytes:
        """The inverse of `to_store`."""

    def from_text(self, text: bytes) -> bytes:
        """The percent-decoded bytes of a URL's path segment to record bytes."""

    def to_json(self, raw: bytes) -> bytes:
        """Record bytes to a JSON document, UTF-8."""


@dataclass(frozen=True)
class _AsIs:
    """Base class of the formats that are stored unchanged."""

    name: str
    size: ClassVar[int | None] = None
    keeps_bytes: ClassVar[bool] = True

    @property
    def probe(self) -> Callable[[bytes], object]:
        return len  # all bytes are valid

    def check(self, raw: bytes) -> None:
        pass

    def to_store(self, raw: bytes) -> bytes:
        return raw

    def from_store(self, stored: bytes) -> bytes:
        return stored

    def from_text(self, text: bytes) -> bytes:
        self.check(text)
        return text

    def to_json(self, raw: bytes) -> bytes:
        raise NotImplementedError


class _String(_AsIs):
    @property
    def probe(self) -> Callable[[bytes], object]:
        return bytes.decode

    def check(self, raw: bytes) -> None:
        try:
            raw.decode()
        except UnicodeDecodeError as e:
            raise ValueError(f"not UTF-8 text: {e.reason} at byte {e.start}") from None

    def to_json(self, raw: bytes) -> bytes:
        return orjson.dumps(raw.decode())


class _Bytes(_AsIs):
    def to_json(self, raw: bytes) -> bytes:
        return b'"' + to_base64url(raw) + b'"'


class _Json(_AsIs):
    @property
    def probe(self) -> Callable[[bytes], object]:
        return orjson.loads

    def check(self, raw: bytes) -> None:
        try:
            orjson.loads(raw)
        except orjson.JSONDecodeError as e:
            raise ValueError(f"not JSON: {e}") from None

    def to_json(self, raw: bytes) -> bytes:
        return raw


class _Uuid(_AsIs):
    size = 36

    @property
    def probe(self) -> Callable[[bytes], object]:
        return self.check

    def check(self, raw: bytes) -> None:
        if len(raw) != 36 or not _UUID.fullmatch(raw.decode("latin-1")):
            raise ValueError("not a UUID of 36 characters (8-4-4-4-12 hexadecimal digits)")

    def from_text(self, text: bytes) -> bytes:
        self.check(text)
        # Java's UUIDSerializer writes lower case
        return str(uuid.UUID(text.decode())).encode()

    def to_json(self, raw: bytes) -> bytes:
        return b'"' + raw + b'"'


class _None(_AsIs):
    keeps_bytes = False

    def to_store(self, raw: bytes) -> bytes:
        return b""

    def to_json(self, raw: bytes) -> bytes:
        return b"null"


@dataclass(frozen=True)
class _Integer:
    name: str
    size: int
    keeps_bytes: ClassVar[bool] = False

    @property
    def probe(self) -> Callable[[bytes], object]:
        return self.check

    def check(self, raw: bytes) -> None:
        if len(raw) != self.size:
            raise ValueError(f"{self.name} is {self.size} bytes, not {len(raw)}")

    def to_store(self, raw: bytes) -> bytes:
        self.check(raw)
        return bytes((raw[0] ^ 0x80,)) + raw[1:]

    from_store = to_store

    def from_text(self, text: bytes) -> bytes:
        decimal = text.decode("latin-1")
        if not _DECIMAL.fullmatch(decimal):
            raise ValueError(f"not a decimal {self.name}")
        try:
            return int(decimal).to_bytes(self.size, "big", signed=True)
        except OverflowError:
            raise ValueError(f"out of the range of {self.name}") from None

    def to_json(self, raw: bytes) -> bytes:
        return b"%d" % int.from_bytes(raw, "big", signed=True)


@dataclass(frozen=True)
class _Float64:
    name: str
    size: ClassVar[int | None] = 8
    keeps_bytes: ClassVar[bool] = False

    @property
    def probe(self) -> Callable[[bytes], object]:
        return self.check

    def check(self, raw: bytes) -> None:
        if len(raw) != 8:
            raise ValueError(f"float64 is 8 bytes, not {len(raw)}")

    def to_store(self, raw: bytes) -> bytes:
        self.check(raw)
        flip = 0xFFFFFFFFFFFFFFFF if raw[0] & 0x80 else 0x8000000000000000
        return (int.from_bytes(raw, "big") ^ flip).to_bytes(8, "big")

    def from_store(self, stored: bytes) -> bytes:
        flip = 0x8000000000000000 if stored[0] & 0x80 else 0xFFFFFFFFFFFFFFFF
        return (int.from_bytes(stored, "big") ^ flip).to_bytes(8, "big")

    def from_text(self, text: bytes) -> bytes:
        decimal = text.decode("latin-1")
        if not _FLOAT.fullmatch(decimal):
            raise ValueError("not a decimal float64, NaN, Infinity or -Infinity")
        return struct.pack(">d", float(decimal))

    def to_json(self, raw: bytes) -> bytes:
        number: float = struct.unpack(">d", raw)[0]
        if number != number:
            return b'"NaN"'
        if number in (float("inf"), float("-inf")):
            return b'"Infinity"' if number > 0 else b'"-Infinity"'
        return orjson.dumps(number)


_KEY_CODECS: tuple[Codec, ...] = (
    _String("string"),
    _Bytes("bytes"),
    _Integer("int32", 4),
    _Integer("int64", 8),
    _Float64("float64"),
    _Uuid("uuid"),
    _Json("json"),
)
KEY_CODECS: dict[str, Codec] = {codec.name: codec for codec in _KEY_CODECS}
VALUE_CODECS: dict[str, Codec] = {**KEY_CODECS, "none": _None("none")}


def from_base64url(text: bytes) -> bytes:
    """Raw key bytes from base64url (RFC 4648, section 5), with or without padding; ValueError."""
    if not re.fullmatch(rb"[A-Za-z0-9_-]*={0,2}", text):
        raise ValueError("not base64url: only A-Z a-z 0-9 - _ and trailing = are allowed")
    bare = text.rstrip(b"=")
    try:
        return base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4))
    except binascii.Error:
        raise ValueError("not base64url: the length is invalid") from None


def to_base64url(raw: bytes) -> bytes:
    """The inverse, without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
