"""Random records of every kind of view, valid and invalid.

All randomness comes from a `random.Random`, so that hypothesis can choose and shrink it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from random import Random

from model.views import View
from tests.support.reference.tables import FOREVER, Record

UUID = "00000000-0000-0000-0000-0000000000"
_TEXTS = ["", "\0", "a", "a\0", "ab", "é", "a/b", ".", "🛩", "%41"]
KEYS: dict[str, list[bytes]] = {
    "string": [text.encode() for text in _TEXTS],
    "bytes": [b"", b"\0", b"\0\xff", b"a", b"a\0", b"a\xff", b"\xff", b"\xff\xff"],
    "int32": [struct.pack(">i", n) for n in (-(2**31), -7, -1, 0, 1, 255, 256, 2**31 - 1)],
    "int64": [struct.pack(">q", n) for n in (-(2**63), -256, -1, 0, 1, 46, 2**53 + 1, 2**63 - 1)],
    "float64": [
        struct.pack(">d", n) for n in (-FOREVER, -1.5, -0.0, 0.0, 5e-324, 0.1, 1e300, FOREVER)
    ],
    "uuid": [f"{UUID}{n:02x}".encode() for n in (0, 9, 10, 15, 16, 255)],
    "json": [b'{"a": 1}', b'{"a":1}', b"1", b"1.0", b'"a"', b"[]", b"[1, 2]"],
}
UNDECODABLE: dict[str, list[bytes | None]] = {
    "string": [None, b"\xff"], "bytes": [None], "int32": [None, b"", b"12345"],
    "int64": [None, b"1"], "float64": [None, b"1"], "uuid": [None, b"x"], "json": [None, b"{"],
}  # fmt: skip


def value_of(dice: Random, kind: str) -> bytes:
    """A value's record bytes."""
    number = dice.choice((-3, 0, 1, 2, 2**53 + 1, dice.randrange(100)))
    if kind == "json":
        document = dice.choice(
            (
                {"n": number},
                {"n": number, "t": "line\nbreak é"},
                {"n": number + 0.5, "x": {"y": number}},
                {"n": str(number), "x": {"y": True}},
                {"n": None, "x": number},
                [number],
                number,
                "text",
            )
        )
        return json.dumps(document, indent=dice.choice((None, 1))).encode()
    if kind == "int64":
        return struct.pack(">q", number)
    if kind == "float64":
        chosen = dice.choice((float(number), 0.25, FOREVER, -FOREVER, float("nan")))
        return struct.pack(">d", chosen)
    return f"value {number}".encode()


def record(
    dice: Random, view: View, offset: int, now: int, keys: Sequence[bytes] | None = None
) -> Record:
    """A record for the view: a value or a delete, on time or late, or in an invalid format. Its
    time is around `now` (ms)."""
    key = dice.choice(keys or KEYS[view.key])
    value = None if dice.random() < 0.25 else value_of(dice, view.value)
    time = max(0, now - dice.choice((0, 0, 1, 5, 20, 50, 60)))
    at: tuple[int, ...] = ()
    if view.store == "window":
        at = (time // 5 * 5 - 10, dice.randrange(2) if view.window_key == "changelog" else 0)
    elif view.store == "session":
        at = (time, time - dice.randrange(12))
    sound = Record(offset, key, at, value, time)
    if dice.random() > 0.08:
        return sound
    wrong = dice.choice(UNDECODABLE[view.key])
    if wrong is not None and view.store in ("window", "session"):
        tail = 16 if view.store == "session" else 12 if view.window_key == "changelog" else 8
        wrong = dice.choice((wrong + bytes(tail), b"short")) if view.key != "bytes" else b"short"
    if wrong is not None and dice.random() < 0.5 and view.value in ("json", "int64", "float64"):
        return Record(offset, key, at, b"{", time, False, is_of_value=True)
    return Record(offset, key, at, value, time, False, wrong)
