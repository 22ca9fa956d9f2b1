"""Reads the records that a producer must write (README.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Record(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes


def read(integer: Callable[[str, int], bytes]) -> Iterator[Record]:
    """The records of standard input. `integer` encodes a number of `int32` or `int64`."""
    for line in sys.stdin:
        topic, kind, written, value = line.rstrip("\n").split("\t")
        if kind == "null":
            key = None
        elif kind in ("text", "bytes"):
            key = bytes.fromhex(written)
        else:
            key = integer(kind, int(written))
        yield Record(topic, key, value.encode())
