"""The kind `versioned`: entries of a key by the time from which they are valid. Tombstones are
entries.

Source: KIP-889 (versioned state stores).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import cast

from model.kinds.kind import (
    DOCUMENT,
    VALUE,
    Deleter,
    Item,
    Kind,
    PointReader,
    Reader,
    StoredView,
    TimeSpan,
    later,
)
from model.kinds.layout import EntryKey, TimedLayout, after
from model.records import from_ordered_time, is_tombstone, ordered_time
from model.rows.row_view import Pair, Render
from model.rows.unreadable import value_member

_NO_TIME = b"\0" * 8


class VersionedLayout(TimedLayout):
    """Entries of a key by the time from which they are valid."""

    def bare_key(self, record_key: bytes) -> bytes:
        return record_key

    def stored_key(self, record_key: bytes, timestamp: int = 0) -> bytes:
        return self.head(record_key) + ordered_time(timestamp)

    def entry_key(self, stored_key: bytes) -> EntryKey:
        key, tail = self.split(stored_key, 8)
        return EntryKey(key, start=from_ordered_time(tail))


def version_at(store: Reader, layout: VersionedLayout, key: bytes, time: int | None) -> Pair | None:
    """The version of `key` at `time` (ms; None: the latest version). It may be a tombstone."""
    low, high = layout.time_range(key, None, time)
    return next(store.scan(low, high, backwards=True), None)


def validity(
    layout: VersionedLayout, version: Pair, following: Pair | None
) -> tuple[int, int | None]:
    """The times (ms) from which and until which a version is valid. It is valid until the following
    version; the second time is None if there is no following version."""
    until = None if following is None else layout.entry_key(following[0]).start
    return layout.entry_key(version[0]).start, until


def validity_json(valid_from: int, valid_to: int | None) -> bytes:
    """The two members of a JSON object with the times of `validity`."""
    until = b"null" if valid_to is None else b"%d" % valid_to
    return b'"valid_from":%d,"valid_to":%b' % (valid_from, until)


class Versioned(Kind):
    name = "versioned"
    history = "versions"
    fields = frozenset({"append"})
    has_versions = True
    tail = 8

    def layout(self, view: StoredView) -> VersionedLayout:
        return VersionedLayout(view.key_codec)

    def row_key(self, view: StoredView, key: bytes, with_times: bool = True) -> EntryKey:
        return view.layout.entry_key(key if with_times else key + _NO_TIME)

    def after_row(self, key: bytes) -> bytes:
        return after(key)

    def render(self, view: StoredView) -> Render:
        key_json, value_json = view.key_codec.to_json, view.value_codec.to_json
        key_of = view.layout.entry_key
        return lambda pairs: [
            DOCUMENT % (key_json(key_of(k + _NO_TIME).key), value_json(s[VALUE])) for k, s in pairs
        ]

    def filter(
        self, view: StoredView, first: int | None, last: int | None, horizon: int
    ) -> Callable[[Pair], bool] | None:
        return None  # a version from before the horizon may still be valid

    def history_items(
        self, view: StoredView, store: Reader, key: bytes, span: TimeSpan, past: bytes | None
    ) -> Iterator[Item]:
        """The versions that are valid in the span. Tombstones have no item."""
        layout = cast(VersionedLayout, view.layout)
        all_versions = layout.time_range(key, None, None)
        first = later(span.first, self.horizon(view, store.stream_time))
        if span.last is not None and span.last < first:
            if past is None and (span.first is None or span.first <= span.last):
                yield from self._before_horizon(view, store, key, span.last)
            return
        low, high = layout.time_range(key, first, span.last)
        if valid_at_start := version_at(store, layout, key, first):
            low = valid_at_start[0]
        if span.descending:
            high = high if past is None else past
            following = next(store.scan(high, all_versions[1]), None)
            for version in store.scan(low, high, backwards=True):
                yield self._item(view, version, following)
                following = version
        else:
            low = low if past is None else max(low, past + b"\0")  # `past` may have expired since
            ascending: Iterator[Pair | None] = store.scan(low, all_versions[1])
            for current, following in pairwise(chain(ascending, (None,))):
                if current is None or current[0] >= high:
                    return
                yield self._item(view, current, following)

    def _before_horizon(
        self, view: StoredView, store: Reader, key: bytes, last: int
    ) -> Iterator[Item]:
        """The latest version, if it is valid from `last` or before. Older ones may be deleted."""
        layout = cast(VersionedLayout, view.layout)
        latest = version_at(store, layout, key, None)
        if latest is not None and layout.entry_key(latest[0]).start <= last:
            yield self._item(view, latest, None)

    def _item(self, view: StoredView, version: Pair, following: Pair | None) -> Item:
        stored_key, stored = version
        if is_tombstone(stored):
            return stored_key, None
        layout = cast(VersionedLayout, view.layout)
        times = validity_json(*validity(layout, version, following))
        return stored_key, b"{%b,%b}" % (times, value_member(view, stored))

    def delete_expired(
        self,
        view: StoredView,
        store: PointReader,
        batch: Deleter,
        stored_key: bytes,
        until: int,
        mispartitioned: bool,
    ) -> None:
        """Delete the versions before this one, which is valid at the horizon. If this one is a
        tombstone, delete it, too, unless it may end a version in another partition."""
        layout = cast(VersionedLayout, view.layout)
        first, _ = layout.time_range(layout.entry_key(stored_key).key, None, None)
        for older, _ in store.scan(first, stored_key):
            batch.delete(older)
        stored = store.get(stored_key)
        if stored is not None and is_tombstone(stored) and not mispartitioned:
            batch.delete(stored_key)
