"""The kind `session`: entries of a key by session end, then start.

The rules are those of Kafka Streams' session stores: bounds are inclusive, and a session matches if
it overlaps them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import cast

from model.kinds.kind import (
    VALUE,
    Item,
    Kind,
    Reader,
    StoredView,
    TimeSpan,
    later,
    scan_behind,
)
from model.kinds.layout import EntryKey, TimedLayout
from model.records import from_ordered_time, ordered_time
from model.rows.row_view import Pair, Render
from model.rows.unreadable import item_without_key

_TWO_TIMES = struct.Struct(">QQ")
_SIGN = 1 << 63


class SessionLayout(TimedLayout):
    """Entries of a key by session end, then start."""

    def bare_key(self, record_key: bytes) -> bytes:
        return record_key[:-16]

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        if len(record_key) < 16:
            raise ValueError(
                f"a session's record key ends with 16 bytes (end and start), but it has only "
                f"{len(record_key)} bytes"
            )
        end, start = _TWO_TIMES.unpack(record_key[-16:])
        return self.head(record_key[:-16]) + _TWO_TIMES.pack(end ^ _SIGN, start ^ _SIGN)

    def entry_key(self, stored_key: bytes) -> EntryKey:
        key, tail = self.split(stored_key, 16)
        end, start = _TWO_TIMES.unpack(tail)
        return EntryKey(key, start=start - _SIGN, end=end - _SIGN)


class Session(Kind):
    name = "session"
    derived = "sessions"
    resource = "sessions"
    history = "sessions"
    has_points = False
    entries_depend = True
    tail = 16
    expires_at_retention = True

    def layout(self, view: StoredView) -> SessionLayout:
        return SessionLayout(view.key_codec)

    def end_of(self, view: StoredView, key: EntryKey) -> int | None:
        return key.end

    def render(self, view: StoredView) -> Render:
        key_json, value_json = view.key_codec.to_json, view.value_codec.to_json
        entry_key = view.layout.entry_key

        def item(pair: Pair) -> bytes:
            key, start, end, _ = entry_key(pair[0])
            return b'{"key":%b,"start":%d,"end":%d,"value":%b}' % (
                key_json(key), start, end, value_json(pair[1][VALUE])
            )  # fmt: skip

        return lambda pairs: list(map(item, pairs))

    def filter(
        self, view: StoredView, first: int | None, last: int | None, horizon: int
    ) -> Callable[[Pair], bool] | None:
        if first is None and last is None and view.retention is None:
            return None
        min_end = ordered_time(later(first, horizon))
        max_start = b"\xff" * 8 if last is None else ordered_time(last)
        return lambda pair: pair[0][-16:-8] >= min_end and pair[0][-8:] <= max_start

    def history_items(
        self, view: StoredView, store: Reader, key: bytes, span: TimeSpan, past: bytes | None
    ) -> Iterator[Item]:
        layout, render = cast(SessionLayout, view.layout), self.render(view)
        horizon = self.horizon(view, store.stream_time)
        low, high = layout.time_range(key, later(span.first, horizon), None)
        for entry in scan_behind(store, low, high, span, past):
            matches = span.last is None or layout.entry_key(entry[0]).start <= span.last
            yield entry[0], item_without_key(view, render, key, entry) if matches else None

    def time_of(self, stored_key: bytes, timestamp: int) -> int:
        return from_ordered_time(stored_key[-16:-8])
