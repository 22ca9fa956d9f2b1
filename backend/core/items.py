"""Entries as JSON items, many at once: what a page, a stream and `top` are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import orjson

from backend.core.errors import BadRequest
from backend.core.records import ENTRY_HEAD_SIZE
from backend.core.views import View

Pair = tuple[bytes, bytes]
"""Stored key and stored bytes."""

Number = int | float

_NUMBERS = ("int32", "int64", "float64")
_INFINITE = {"Infinity": float("inf"), "-Infinity": float("-inf")}


def renderer(view: View) -> Callable[[Iterable[Pair]], list[bytes]]:
    """Stored pairs (a versioned store's without the time) to items, in the same order."""
    # the inner loops of a scan: nothing but slices and one formatting each
    head = ENTRY_HEAD_SIZE
    key_json, value_json = view.key_codec.to_json, view.value_codec.to_json
    if view.store == "window":
        entry_key, size = view.layout.entry_key, view.window_size

        def window(pair: Pair) -> bytes:
            key, start, _, sequence = entry_key(pair[0])
            end = b"null" if size is None else b"%d" % (start + size)
            return b'{"key":%b,"start":%d,"end":%b,"sequence":%d,"value":%b}' % (
                key_json(key), start, end, sequence, value_json(pair[1][head:])
            )  # fmt: skip

        return lambda pairs: list(map(window, pairs))
    if view.store == "session":
        entry_key = view.layout.entry_key

        def session(pair: Pair) -> bytes:
            key, start, end, _ = entry_key(pair[0])
            return b'{"key":%b,"start":%d,"end":%d,"value":%b}' % (
                key_json(key), start, end, value_json(pair[1][head:])
            )  # fmt: skip

        return lambda pairs: list(map(session, pairs))
    if view.store == "versioned":
        of_version = view.layout.entry_key
        return lambda pairs: [
            b'{"key":%b,"value":%b}' % (key_json(of_version(k + _TIME).key), value_json(s[head:]))
            for k, s in pairs
        ]
    if view.key_codec.keeps_bytes and view.value == "json":
        if view.key == "string":
            dumps = orjson.dumps
            return lambda pairs: [
                b'{"key":%b,"value":%b}' % (dumps(k[1:].decode()), s[head:]) for k, s in pairs
            ]
        return lambda pairs: [
            b'{"key":%b,"value":%b}' % (key_json(k[1:]), s[head:]) for k, s in pairs
        ]
    from_store = view.key_codec.from_store
    return lambda pairs: [
        b'{"key":%b,"value":%b}' % (key_json(from_store(k[1:])), value_json(s[head:]))
        for k, s in pairs
    ]


_TIME = b"\0" * 8


class Ranking:
    """By which number of a value `top` orders entries; BadRequest where the view has none."""

    def __init__(self, view: View, by: str | None, descending: bool) -> None:
        numbers = view.value in _NUMBERS
        if not numbers and by is None:
            raise BadRequest("bad-parameter", "by= names the field of the value to order by.")
        if numbers and by is not None:
            raise BadRequest("bad-parameter", f"The values are {view.value}: leave by= out.")
        if not numbers and view.value not in ("json", "avro"):
            raise BadRequest(
                "bad-parameter", f"The values of {view.name} are {view.value}: without numbers."
            )
        self._path = by.split(".") if by is not None else []
        self._descending = descending
        self._value_json = view.value_codec.to_json

    def of_value(self, value: bytes) -> Number | None:
        """Of record bytes; least comes first. None: it has no number there."""
        return self._rank(orjson.loads(self._value_json(value)))

    def of_item(self, item: bytes) -> Number | None:
        return self._rank(orjson.loads(item)["value"])

    def _rank(self, found: object) -> Number | None:
        for name in self._path:
            if not isinstance(found, dict) or name not in found:
                return None
            found = found[name]
        if isinstance(found, str) and not self._path:
            found = _INFINITE.get(found)  # a float64 that JSON has no number for
        if isinstance(found, bool) or not isinstance(found, int | float):
            return None
        return -found if self._descending else found
