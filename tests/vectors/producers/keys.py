"""The keys that every producer writes, as programs are given them. Made from a fixed seed."""

from __future__ import annotations

import random
from typing import NamedTuple


class Key(NamedTuple):
    """`kind`: `text`, `bytes`, `int32` or `int64`. `written`: in hexadecimal, or a number."""

    kind: str
    written: str

    @property
    def raw(self) -> bytes:
        """The key of the record, as Kafka's serializers for Java encode it."""
        if self.kind in ("text", "bytes"):
            return bytes.fromhex(self.written)
        return int(self.written).to_bytes(4 if self.kind == "int32" else 8, "big", signed=True)


PARTITIONS = (1, 6, 7)
"""The partition counts of the topics."""

_TEXTS = (
    "", "a", "order-1", "N14228", "a b", "a/b", "a%2Fb", "+", "?", "#", "%", "null", "true",
    '"quoted"', "{}", "[1]", "a,b", "a\tb", "Zürich", "naïve", "Ångström", "日本語", "Ελλάδα",
    "москва", "שלום", "😀", "e\u0301", "\u00e9", "\ufeff", "x" * 127, "x" * 128, "x" * 129,
    "long " * 60, "länge" * 200,
)  # fmt: skip
_INT32 = (0, 1, -1, 42, 255, 256, 65535, 65536, -(2**23), 2**23)
_INT64 = (*_INT32, 2**31, -(2**31) - 1, 2**53 - 1, -(2**53) + 1, 1_700_000_000_000)
_BYTES = (
    "",
    "00",
    "ff",
    "0000",
    "ffff",
    "00ff",
    "ff00",
    "7f80ff",
    "80000000",
    "7fffffff",
    "ffffffff",
)


def _text(text: str) -> Key:
    return Key("text", text.encode().hex())


def _all() -> dict[str, list[Key]]:
    numbers = random.Random(20260101)
    texts = [*_TEXTS, *(f"customer-{numbers.randrange(10**6)}" for _ in range(60))]
    binary = [*_BYTES, *(numbers.randbytes(1 + i % 40).hex() for i in range(80))]
    small = [*_INT32, *(numbers.randrange(10**6) for _ in range(50))]
    large = [*_INT64, *(numbers.randrange(2**48) for _ in range(50))]
    decimals = [*_INT64, *(numbers.randrange(10**9) for _ in range(50))]
    return {
        "texts": [_text(text) for text in dict.fromkeys(texts)],
        "decimals": [_text(str(number)) for number in dict.fromkeys(decimals)],
        "binary": [Key("bytes", key) for key in dict.fromkeys(binary)],
        "int32": [Key("int32", str(number)) for number in dict.fromkeys(small)],
        "int64": [Key("int64", str(number)) for number in dict.fromkeys(large)],
    }


KEYS = _all()
"""A topic has the keys of one name."""
