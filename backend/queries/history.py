"""The windows, sessions or versions of one key, from the store partitions of this instance.

The rules are those of Kafka Streams' interactive queries: bounds are inclusive; a session or a
version is in the result if it overlaps them; expired entries are never in the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from backend.ingest.protocols import Store
from backend.queries.point import State, ViewReads
from backend.queries.routing import ReadOptions
from backend.wire.cursor import Question, decode_cursor, encode_cursor
from backend.wire.scan import Query
from model.kinds.kind import Item, TimeSpan
from model.problems import BadRequest
from model.views import View

MAX_LIMIT = 1000
MAX_PAGE_BYTES = 4 << 20  # a page ends with the item that exceeds it
MAX_EXAMINED = 5_000  # entries for one page
_LONG = 1024  # bytes of a key; cursors of shorter keys are the same as in earlier versions
_ANY_TAIL = b"", b"\xff" * 32  # more bytes than follow a key


@dataclass(frozen=True)
class Span(TimeSpan):
    """One page of a key's entries."""

    limit: int = 100
    cursor: str | None = None


@dataclass
class HistoryPage:
    """JSON items, and the cursor of the next page (None: this is the last one)."""

    items: list[bytes]
    next: str | None


class History:
    """The entries of one key; `resource` is the last segment of the path."""

    def __init__(self, reads: ViewReads, view: View | None = None) -> None:
        """`view`: the view of `reads` with another format of values; None: `reads.view` itself."""
        self._reads = reads
        self.view = view or reads.view
        assert self.view.kind.history is not None
        self.resource = self.view.kind.history
        self.other_key = reads.other_key

    def read(self, key: bytes, options: ReadOptions, span: Span) -> tuple[State, HistoryPage]:
        """One page; empty if the key is missing. NotOwner, Problem as `ViewReads.resolve_one`."""
        return self._reads.read_entries(key, options, partial(self.page, key, span))

    def page(self, key: bytes, span: Span, store: Store) -> HistoryPage:
        """One page of the key's entries in a store. It ends after a number of items, of bytes, or
        of entries read, because other requests wait. BadRequest, and what the store raises."""
        question, past = self._question(key, span), self._past(key, span)
        shown: list[bytes] = []
        size = 0
        reached = last_shown = b""
        following: str | None = None
        for examined, (stored_key, item) in enumerate(self._items(store, key, span, past)):
            full = len(shown) == span.limit or size > MAX_PAGE_BYTES
            if full and item is not None:
                # the next page begins after the last item shown, not after later deletes: one of
                # them may become a value before the next page
                following = encode_cursor(question, self._position(key, last_shown))
                break
            if examined == MAX_EXAMINED:
                following = encode_cursor(question, self._position(key, reached))
                break
            reached = stored_key
            if item is not None:
                last_shown = stored_key
                shown.append(item)
                size += len(item)
        return HistoryPage(shown, following)

    def check_cursor(self, key: bytes, span: Span) -> None:
        """Raises BadRequest unless the cursor, if there is one, comes from this query."""
        self._past(key, span)

    def all_items(self, key: bytes, span: Span, store: Store) -> list[bytes]:
        """All of the key's entries in a store within the span. Raises BadRequest if there are more
        than its limit."""
        items: list[bytes] = []
        size = 0
        for examined, (_, item) in enumerate(self._items(store, key, span, None)):
            if item is not None:
                items.append(item)
                size += len(item)
            if len(items) > span.limit or size > MAX_PAGE_BYTES or examined == MAX_EXAMINED:
                raise BadRequest(
                    "too-many-entries",
                    f"One partition has more than {span.limit} {self.resource} of the key, or "
                    f"{MAX_PAGE_BYTES >> 20} MiB. Narrow the bounds, or raise limit (at most "
                    f"{MAX_LIMIT}): partials=all has no pages.",
                )
        return items

    def wanted(self, span: Span, stale: str | None) -> Query:
        """The entries that a page needs, for requests to all partitions."""
        return Query(first=span.first, last=span.last, stale=stale)

    def _items(self, store: Store, key: bytes, span: Span, past: bytes | None) -> Iterator[Item]:
        """The entries in the span's order, after the stored key `past`."""
        return self.view.kind.history_items(self.view, store, key, span, past)

    def _past(self, key: bytes, span: Span) -> bytes | None:
        """The stored key of the cursor, if there is one. Raises BadRequest."""
        if span.cursor is None:
            return None
        question, key_range = self._question(key, span), self.view.layout.key_range(key, key)
        if len(key) <= _LONG:
            return decode_cursor(question, span.cursor, key_range)
        return key_range[0] + decode_cursor(question, span.cursor, _ANY_TAIL)

    def _position(self, key: bytes, stored_key: bytes) -> bytes:
        """The part of the stored key that a cursor contains. If the key is long, this is only what
        follows the key, because the request has the key, too."""
        head = self.view.layout.key_range(key, key)[0] if len(key) > _LONG else b""
        return stored_key.removeprefix(head)

    def _question(self, key: bytes, span: Span) -> Question:
        """What identifies this query in its cursors."""
        bounds = (span.first, span.last, span.descending)
        return (self.view.hash, self.resource, key.hex(), *bounds)
