"""The entries of one key from several partitions, for a history or an older version.

All entries within the times come from one scan. In a versioned view, the scan begins with the
version that was valid at the first time, in whichever partition it is. It ends with the first
version after the last time, because this may be the end of the version before it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import cast

from backend.queries.scans.freshness import Freshness
from backend.queries.scans.partials import AmbiguityCheck, EntryLimit, one_of_each
from backend.queries.scans.scatter_gather import MAX_ENTRIES, MAX_ENTRIES_BYTES, ScatterGather
from backend.wire.scan import Query, Row
from backend.wire.scan_codec import ENTRIES
from model.kinds.versioned import VersionedLayout
from model.views import View

_PAGE = 2_000  # entries
_ONE_VERSION = 2  # entries: it, and the one after it
_CHECKED = 10  # entries; most often, the first has a value


@dataclass(frozen=True)
class _Reading:
    """Where to read entries, and what notes how fresh the partitions are."""

    scatter_gather: ScatterGather
    view: View
    freshness: Freshness
    partitions: Sequence[int] | None

    async def first_key(self, query: Query) -> bytes | None:
        """The stored key of the first entry in the query's order; None: there is none."""
        async with aclosing(self._steps(query, 1)) as steps:
            async for rows, _ in steps:
                if rows:
                    return rows[0][0]
        return None

    async def until(self, query: Query, end: bytes, size: int) -> list[tuple[bytes, bytes]]:
        """Stored keys and bytes, up to and with the first key that is not less than `end`. Asks for
        `size` entries at a time. Raises BadRequest if they are too many."""
        entries: list[tuple[bytes, bytes]] = []
        limit = EntryLimit(MAX_ENTRIES, MAX_ENTRIES_BYTES)
        async with aclosing(self._steps(query, size)) as steps:
            async for rows, _ in steps:
                following = next((index for index, row in enumerate(rows) if row[0] >= end), None)
                if following is not None:
                    rows = rows[: following + 1]
                entries += [(stored_key, head + value) for stored_key, head, value in rows]
                limit.add(rows)
                if following is not None:
                    break
        return entries

    async def check_all(self, query: Query) -> None:
        """Raises NonRetryable if several partitions have versions of the key, even if these
        versions were not read."""
        request = self.scatter_gather.request(self.view, ENTRIES, query, _CHECKED)
        asked = range(request.total) if self.partitions is None else self.partitions
        rows = await one_of_each(self.scatter_gather.ask, request, asked, self.freshness.note)
        AmbiguityCheck(self.view, with_times=True).whole(rows, {})

    def _steps(
        self, query: Query, size: int
    ) -> AsyncGenerator[tuple[list[Row], bytes | None], None]:
        return self.scatter_gather.rows(
            self.view, query, size, None, self.freshness, ENTRIES, self.partitions
        )


async def entries_of_key(
    scatter_gather: ScatterGather,
    view: View,
    key: bytes,
    query: Query,
    freshness: Freshness,
    partitions: Sequence[int] | None = None,
) -> list[tuple[bytes, bytes]]:
    """The entries and tombstones of a key in these partitions (None: all), in order: stored keys
    and bytes. `query`: the times, and `stale`. Raises Unavailable, NonRetryable, and BadRequest if
    it is too much.

    Of a versioned view, `first` and `last` are times at which versions are valid.
    """
    low, high = view.layout.key_range(key, key)
    reading = _Reading(scatter_gather, view, freshness, partitions)
    whole = replace(query, low=low, high=high)
    if not view.kind.has_versions or (query.first is None and query.last is None):
        return await reading.until(whole, high, _PAGE)
    layout, first, last = cast(VersionedLayout, view.layout), query.first, query.last
    whole = replace(whole, first=None, last=None)
    _, end = layout.time_range(key, None, last)
    size = _ONE_VERSION if first == last else _PAGE
    start: bytes | None = None
    if first is not None:
        _, behind = layout.time_range(key, None, first)
        start = await reading.first_key(replace(whole, high=behind, backwards=True))
    entries = await reading.until(replace(whole, low=start or low), end, size)
    if start is not None and (not entries or entries[0][0] != start):
        # the first version has expired since, or a replica that is behind has answered: now any
        # version may be the first
        entries = await reading.until(whole, end, _PAGE)
    if view.is_partial and freshness.mispartitioned:
        await reading.check_all(whole)
    return entries
