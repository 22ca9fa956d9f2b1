"""Formats `int32` and `int64`: as Kafka's `IntegerSerializer` and `LongSerializer` write them.

In RocksDB, the sign bit is flipped, so that byte order is the order of the numbers.
"""

from __future__ import annotations

import re
from typing import Any

from model.expressions.types import Kind
from model.formats.codec import Codec
from model.formats.format import Format, OpenApi, PythonForm

_DECIMAL = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class IntegerCodec(Codec):
    keeps_bytes = False
    is_number = True
    json_is_exact = False
    size: int

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def check(self, raw: bytes) -> None:
        if len(raw) != self.size:
            raise ValueError(f"{self.name} is {self.size} bytes, not {len(raw)}")

    def to_store(self, raw: bytes) -> bytes:
        self.check(raw)
        return bytes((raw[0] ^ 0x80,)) + raw[1:]

    def from_store(self, stored: bytes) -> bytes:
        return bytes((stored[0] ^ 0x80,)) + stored[1:]

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

    def json_to_text(self, value: Any, written: bytes) -> tuple[bytes, bool]:
        if type(value) is not int:
            raise ValueError(f"not a whole JSON number ({self.name})")
        return b"%d" % value, False


class Integer(Format):
    python = PythonForm(
        types=(int,),
        to_text=b"%d".__mod__,
        to_json=b"%d".__mod__,
        from_typed=int,
        has_one_text=True,
        is_ordered=True,
    )

    def __init__(self, name: str, size: int, serde: str) -> None:
        self.name = name
        self.codec = IntegerCodec(name, size)
        limit = 1 << (8 * size - 1)
        schema = {"type": "integer", "format": name, "minimum": -limit, "maximum": limit - 1}
        self.openapi = OpenApi(serde, schema, 42)
        self.serdes = frozenset((serde,))
        self.derived = frozenset((Kind.INTEGER,) if size == 8 else ())
