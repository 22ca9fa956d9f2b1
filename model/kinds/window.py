"""The kind `window`: entries of a key by window start, then sequence.

The rules are those of Kafka Streams' window stores: bounds are inclusive and apply to the start.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import cast

from model.formats.codec import Codec
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

_START_SEQUENCE = struct.Struct(">Qi")
_SIGN = 1 << 63


class WindowLayout(TimedLayout):
    """Entries of a key by window start, then sequence number (if several have the same start)."""

    def __init__(self, codec: Codec, sequenced: bool = True) -> None:
        """`sequenced`: whether record keys end with the sequence number."""
        super().__init__(codec)
        self._tail = 12 if sequenced else 8

    def bare_key(self, record_key: bytes) -> bytes:
        return record_key[: -self._tail]

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        if len(record_key) < self._tail:
            raise ValueError(
                f"a windowed record key ends with {self._tail} bytes (time"
                f"{' and sequence' if self._tail == 12 else ''}), but it has only "
                f"{len(record_key)} bytes"
            )
        suffix = record_key[-self._tail :].ljust(12, b"\0")
        flipped = bytes((suffix[0] ^ 0x80,)) + suffix[1:]
        return self.head(record_key[: -self._tail]) + flipped

    def entry_key(self, stored_key: bytes) -> EntryKey:
        key, tail = self.split(stored_key, 12)
        start, sequence = _START_SEQUENCE.unpack(tail)
        return EntryKey(key, start=start - _SIGN, sequence=sequence)


class Window(Kind):
    name = "window"
    derived = "windows"
    resource = "windows"
    history = "windows"
    fields = frozenset({"window_size", "window_zone", "window_key"})
    has_points = False
    tail = 12
    expires_at_retention = True

    def layout(self, view: StoredView) -> WindowLayout:
        return WindowLayout(view.key_codec, sequenced=view.window_key == "changelog")

    def end_of(self, view: StoredView, key: EntryKey) -> int | None:
        return view.window_end(key.start)

    def render(self, view: StoredView) -> Render:
        key_json, value_json = view.key_codec.to_json, view.value_codec.to_json
        entry_key, end_of = view.layout.entry_key, view.window_end

        def item(pair: Pair) -> bytes:
            key, start, _, sequence = entry_key(pair[0])
            time = end_of(start)
            end = b"null" if time is None else b"%d" % time
            return b'{"key":%b,"start":%d,"end":%b,"sequence":%d,"value":%b}' % (
                key_json(key), start, end, sequence, value_json(pair[1][VALUE])
            )  # fmt: skip

        return lambda pairs: list(map(item, pairs))

    def filter(
        self, view: StoredView, first: int | None, last: int | None, horizon: int
    ) -> Callable[[Pair], bool] | None:
        if first is None and last is None and view.retention is None:
            return None
        min_start = ordered_time(later(first, horizon))
        max_start = b"\xff" * 8 if last is None else ordered_time(last)
        return lambda pair: min_start <= pair[0][-12:-4] <= max_start

    def history_items(
        self, view: StoredView, store: Reader, key: bytes, span: TimeSpan, past: bytes | None
    ) -> Iterator[Item]:
        layout, render = cast(WindowLayout, view.layout), self.render(view)
        first = later(span.first, self.horizon(view, store.stream_time))
        low, high = layout.time_range(key, first, span.last)
        for entry in scan_behind(store, low, high, span, past):
            yield entry[0], item_without_key(view, render, key, entry)

    def time_of(self, stored_key: bytes, timestamp: int) -> int:
        return from_ordered_time(stored_key[-12:-4])
