"""The windows, the sessions or the versions of one key, from what this instance holds.

The rules are those of Kafka Streams' interactive queries: bounds are inclusive, a session or a
version is within them if it overlaps them, and what has expired is not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import cast

from backend.ingest.protocols import Store
from backend.kinds.expiry import horizon
from backend.kinds.items import renderer
from backend.queries.point import ViewReads, unreadable
from backend.queries.routing import ReadOptions
from backend.queries.versions import Stored, validity, version_at
from backend.wire.answer import JSON, Answer, Header
from backend.wire.cursor import Question, decode_cursor, encode_cursor
from backend.wire.scan import Query
from model.layouts import SessionLayout, VersionedLayout, WindowLayout
from model.problems import BadRequest, StoreClosedError, StoreError
from model.records import ENTRY_HEAD_SIZE, is_deleted

MAX_LIMIT = 1000
MOST_PAGE_BYTES = 4 << 20  # a page ends with the item that exceeds it
MOST_EXAMINED = 5_000  # entries for one page

Item = tuple[bytes, bytes | None]
"""A stored key, and the JSON of what is there; None: nothing that is asked for."""


@dataclass(frozen=True)
class Span:
    """Which entries of a key: times in ms, both bounds within."""

    first: int | None = None
    last: int | None = None
    descending: bool = False
    limit: int = 100
    cursor: str | None = None


class History:
    """What the three kinds share; `resource` is the last segment of the path."""

    resource = ""

    def __init__(self, reads: ViewReads) -> None:
        self._reads = reads
        self.view = reads.view
        self._items_of = renderer(reads.view)

    def read(self, key: bytes, options: ReadOptions, span: Span) -> Answer:
        """One page; raises what `ViewReads.read` raises, but that no entry is an empty page."""
        reads = self._reads
        held = reads.holder(key, options)
        # a record elsewhere would be missing in the list
        reads.refuse_doubtful(key)
        headers = reads.state_headers(held)
        try:
            answer = self.page(key, span, held.store, headers)
        except (StoreClosedError, StoreError) as e:
            raise unreadable(held, e) from None
        reads.count(answer)
        return answer

    def page(self, key: bytes, span: Span, store: Store, headers: list[Header]) -> Answer:
        """One page of what a store has of the key; what the store raises, BadRequest. It ends after
        so many items, bytes or entries looked at: others wait meanwhile."""
        question = self._question(key, span)
        past = None if span.cursor is None else decode_cursor(question, span.cursor)
        shown: list[bytes] = []
        size = 0
        reached = b""
        following = b"null"
        for examined, (stored_key, item) in enumerate(self._items(store, key, span, past)):
            full = len(shown) == span.limit or size > MOST_PAGE_BYTES
            if (full and item is not None) or examined == MOST_EXAMINED:
                following = b'"%b"' % encode_cursor(question, reached).encode()
                break
            reached = stored_key
            if item is not None:
                shown.append(item)
                size += len(item)
        return Answer(
            200,
            [*headers, JSON],
            b'{"key":%b,"items":[%b],"next":%b}'
            % (
                self.view.key_codec.to_json(key),
                b",".join(shown),
                following,
            ),
        )

    def all_items(self, key: bytes, span: Span, store: Store) -> list[bytes]:
        """All that a store has of the key within the span; BadRequest if that is more than its
        limit."""
        found: list[bytes] = []
        size = 0
        for examined, (_, item) in enumerate(self._items(store, key, span, None)):
            if item is not None:
                found.append(item)
                size += len(item)
            if len(found) > span.limit or size > MOST_PAGE_BYTES or examined == MOST_EXAMINED:
                raise BadRequest(
                    "too-many-entries",
                    f"One partition has more than {span.limit} {self.resource} of the key, or "
                    f"{MOST_PAGE_BYTES >> 20} MiB: narrow the bounds, or set limit ({MAX_LIMIT} at "
                    f"most); there are no pages of partials=all.",
                )
        return found

    def wanted(self, span: Span, stale: str | None) -> Query:
        """The entries that a page needs, where they are asked of all partitions. Of versions all:
        what is valid at a time may have begun long before."""
        if self.view.store == "versioned":
            return Query(stale=stale)
        return Query(first=span.first, last=span.last, stale=stale)

    def _items(self, store: Store, key: bytes, span: Span, past: bytes | None) -> Iterator[Item]:
        """The entries in the span's order, from behind the stored key `past` on."""
        raise NotImplementedError

    def _scan(
        self, store: Store, low: bytes, high: bytes, span: Span, past: bytes | None
    ) -> Iterator[Stored]:
        if past is not None:
            low, high = (low, past) if span.descending else (max(low, past + b"\0"), high)
        return store.scan(low, high, backwards=span.descending)

    def _without_key(self, key: bytes, entry: Stored) -> bytes | None:
        """An item as in questions about the whole view; a page says its key once. None: deleted."""
        if is_deleted(entry[1]):
            return None
        [item] = self._items_of((entry,))
        return b"{" + item[len(b'{"key":%b,' % self.view.key_codec.to_json(key)) :]

    def _question(self, key: bytes, span: Span) -> Question:
        """For cursors."""
        bounds = (span.first, span.last, span.descending)
        return (self.view.hash, self.resource, key.hex(), *bounds)


class Windows(History):
    """By window start, then sequence."""

    resource = "windows"

    def _items(self, store: Store, key: bytes, span: Span, past: bytes | None) -> Iterator[Item]:
        layout = cast(WindowLayout, self.view.layout)
        first = _later(span.first, horizon(self.view, store.stream_time))
        low, high = layout.time_range(key, first, span.last)
        for entry in self._scan(store, low, high, span, past):
            yield entry[0], self._without_key(key, entry)


class Sessions(History):
    """By session end, then start."""

    resource = "sessions"

    def _items(self, store: Store, key: bytes, span: Span, past: bytes | None) -> Iterator[Item]:
        layout = cast(SessionLayout, self.view.layout)
        low, high = layout.ending_from(
            key, _later(span.first, horizon(self.view, store.stream_time))
        )
        for entry in self._scan(store, low, high, span, past):
            begins_in_time = span.last is None or layout.entry_key(entry[0]).start <= span.last
            yield entry[0], self._without_key(key, entry) if begins_in_time else None


class Versions(History):
    """By the time from which they are valid; a stretch without the key is not in the list."""

    resource = "versions"

    def _items(self, store: Store, key: bytes, span: Span, past: bytes | None) -> Iterator[Item]:
        layout = cast(VersionedLayout, self.view.layout)
        of_key = layout.valid_from_range(key, None, None)
        first = _later(span.first, horizon(self.view, store.stream_time))
        if span.last is not None and span.last < first:
            if past is None and (span.first is None or span.first <= span.last):
                yield from self._before_horizon(store, layout, key, span.last)
            return
        low, high = layout.valid_from_range(key, first, span.last)
        if valid_then := version_at(store, layout, key, first):
            low = valid_then[0]
        if span.descending:
            high = high if past is None else past
            following = next(store.scan(high, of_key[1]), None)
            for found in store.scan(low, high, backwards=True):
                yield from self._version(layout, found, following)
                following = found
        else:
            low = low if past is None else past + b"\0"
            onwards: Iterator[Stored | None] = store.scan(low, of_key[1])
            for version, following in pairwise(chain(onwards, (None,))):
                if version is None or version[0] >= high:
                    return
                yield from self._version(layout, version, following)

    def _before_horizon(
        self, store: Store, layout: VersionedLayout, key: bytes, last: int
    ) -> Iterator[Item]:
        """What is valid since then; nothing else is known, as for `as_of`."""
        latest = version_at(store, layout, key, None)
        if latest is not None and layout.entry_key(latest[0]).start <= last:
            yield from self._version(layout, latest, None)

    def _version(
        self, layout: VersionedLayout, found: Stored, following: Stored | None
    ) -> Iterator[Item]:
        stored_key, stored = found
        if is_deleted(stored):
            yield stored_key, None
            return
        yield (
            stored_key,
            b'{"valid_from":%d,"valid_to":%b,"value":%b}'
            % (
                *validity(layout, found, following),
                self.view.value_codec.to_json(stored[ENTRY_HEAD_SIZE:]),
            ),
        )


def _later(first: int | None, least: int) -> int:
    return least if first is None else max(first, least)


HISTORIES: dict[str, type[History]] = {
    "window": Windows,
    "session": Sessions,
    "versioned": Versions,
}
"""By kind of store; a key-value store has none."""
