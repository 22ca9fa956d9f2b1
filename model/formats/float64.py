"""Format `float64`: IEEE 754, as Kafka's `DoubleSerializer` writes it.

In RocksDB, the sign bit is flipped, or all bits of a negative number, so that byte order is the
order of the numbers. In JSON, "NaN", "Infinity" and "-Infinity" are text: JSON has no such numbers.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import orjson

from model.expressions.types import Kind
from model.formats.codec import Codec
from model.formats.format import Format, OpenApi, PythonForm

# linear time: no two parts of it can match the same digits
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|-?Infinity", re.ASCII)


_NAN = struct.pack(">d", float("nan"))


def json_number(number: float) -> float | str:
    """The number for a JSON document: text for NaN and the infinities."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def float_text(number: float) -> str:
    """The number as text: NaN and the infinities have names."""
    return str(json_number(number))


class Float64Codec(Codec):
    name = "float64"
    size = 8
    keeps_bytes = False
    is_number = True
    json_is_exact = False
    lists_bytes = True

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
        return orjson.dumps(json_number(number))

    def is_identified(self, raw: bytes, document: bytes) -> bool:
        # there are many NaNs, and "NaN" means the NaN that Java writes
        return document != b'"NaN"' or raw == _NAN

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        if type(value) in (int, float):
            return repr(float(value)).encode(), False
        if value not in ("NaN", "Infinity", "-Infinity"):
            raise ValueError('not a JSON number, "NaN", "Infinity" or "-Infinity" (float64)')
        return str(value).encode(), False


_CODEC = Float64Codec()


def _to_text(value: float) -> bytes:
    return float_text(float(value)).encode()


class Float64(Format):
    name = "float64"
    codec = _CODEC
    python = PythonForm(
        types=(float, int),
        to_text=_to_text,
        to_json=lambda value: _CODEC.to_json(_CODEC.from_text(_to_text(value))),
        from_json=float,
        from_typed=float,
        is_ordered=True,
        lists_bytes=True,
    )
    openapi = OpenApi("DoubleSerde", {"type": "number", "format": "double"}, 1.5)
    serdes = frozenset(("DoubleSerde",))
    derived = frozenset((Kind.DOUBLE, Kind.DECIMAL))
