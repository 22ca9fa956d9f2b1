"""Entries as JSON items, many at once: what a page, a stream and `top` are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import orjson

from model.records import ENTRY_HEAD_SIZE
from model.views import View

Pair = tuple[bytes, bytes]
"""Stored key and stored bytes."""


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
