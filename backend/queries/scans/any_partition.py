"""Reads of a key that may be in several partitions. All partitions are asked; for a key that has
moved, only the partitions that it has belonged to.

Right after partitions were added, a new one is opened: it has no answers for a second or two. A
moved key is then answered as of the addition, from the partitions that it had before.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from backend.ingest.protocols import Store
from backend.instance.context import QueryContext
from backend.queries.moved_keys import has_moved_keys, homes_of, partition_counts
from backend.queries.page import first_rows
from backend.queries.routing import OCTETS, ReadOptions
from backend.queries.scans.freshness import Freshness
from backend.queries.scans.key_entries import entries_of_key
from backend.queries.scans.merged_entries import MergedEntries
from backend.queries.scans.partial_items import partial_items, partial_values
from backend.queries.scans.scatter_gather import ScatterGather
from backend.wire.scan import Query
from backend.wire.scan_codec import ENTRIES, RAW
from model.partitioner import puts_anywhere
from model.problems import Unavailable
from model.records import is_unreadable
from model.rows.unreadable import Unreadable, ValueUnreadable, bytes_of, settle
from model.views import View

_T = TypeVar("_T")

_OPENING = ("catching-up", "nobody", "not-here")


class MovedKeyReads:
    """Chooses the partitions to read for a key that may have moved."""

    def __init__(self, context: QueryContext) -> None:
        self._context = context
        self._was_read: set[tuple[str, int]] = set()  # partitions that have been answerable

    async def read(
        self,
        view: View,
        key: bytes,
        freshness: Freshness,
        read: Callable[[Sequence[int] | None], Awaitable[_T]],
    ) -> _T:
        """What `read` gives for the partitions that may have the key; None means all of them."""
        counts = partition_counts(self._context, view)
        is_anywhere = len(counts) < 2 or puts_anywhere(view.partitioner, key)
        if is_anywhere or not has_moved_keys(self._context, view):
            for partition in self._unplaced(view):
                freshness.note_unread(partition)
            return await read(None)
        *earlier, newest = homes_of(view, key, counts)
        if unplaced := self._unplaced(view):
            # the key may also have a partition that follows from the new number of partitions
            [home] = homes_of(view, key, [unplaced.stop])
            if home not in (newest, *earlier):
                freshness.note_unread(home)
        try:
            result = await read(sorted({newest, *earlier}))
        except Unavailable as unavailable:
            is_new = newest >= counts[-2] and (view.name, newest) not in self._was_read
            if not (is_new and unavailable.code in _OPENING and self._were_just_added(view)):
                raise
            result = await read(sorted({*earlier}))
            freshness.note_unread(newest)
        else:
            self._was_read.add((view.name, newest))
        return result

    def _unplaced(self, view: View) -> range:
        """Partitions of the topic that the topology does not have yet."""
        metadata = self._context.metadata_poller.latest.get(view.topic)
        count = len(self._context.group.placed(view).active)
        return range(count, count if metadata is None else metadata.partitions)

    def _were_just_added(self, view: View) -> bool:
        metadata = self._context.metadata_poller.latest.get(view.topic)
        return metadata is not None and metadata.were_just_added(time.monotonic())


class AnyPartitionReads:
    """Point reads and histories from all partitions of a view.

    Each notes in `freshness` how fresh the partitions are and which instances read. Raises
    Unavailable.
    """

    def __init__(self, context: QueryContext, scatter_gather: ScatterGather) -> None:
        self._scatter_gather = scatter_gather
        self._moved_keys = MovedKeyReads(context)

    async def newest(
        self, view: View, key: bytes, options: ReadOptions, freshness: Freshness
    ) -> bytes | None:
        """The key's newest entry; None if it is missing. ValueUnreadable, unless its bytes are
        wanted (OCTETS). Of the options, only `stale` and the representation count."""
        query = _query_for_key(view, key, Query(stale=options.stale))

        async def read(partitions: Sequence[int] | None) -> bytes | None:
            rows, reached = await first_rows(
                self._scatter_gather, view, query, 1, freshness, what=RAW, partitions=partitions
            )
            if not rows and reached is not None:
                raise Unavailable("took-too-long", "Not all partitions have answered in time.")
            if not rows:
                return None
            _, head, value = rows[0]
            if not is_unreadable(head):
                return head + value
            if options.representation == OCTETS:
                return bytes_of(view, head + value)
            entry = settle(view, head + value)
            if isinstance(entry, Unreadable):
                raise ValueUnreadable(view, entry)
            return entry

        return await self._moved_keys.read(view, key, freshness, read)

    async def values(
        self, view: View, key: bytes, stale: str | None, freshness: Freshness
    ) -> list[bytes]:
        """The value in each partition that has one, as JSON items."""
        query = _query_for_key(view, key, Query(stale=stale))
        partials = await self._scatter_gather.partials(view, query, freshness)
        return partial_values(view, partials)

    async def entries(
        self,
        view: View,
        key: bytes,
        query: Query,
        freshness: Freshness,
        read: Callable[[Store], _T],
    ) -> _T:
        """What `read` finds among the stored entries of a key, in whichever partitions they are.

        Expired entries are left out, except versions. `query`: the times, and `stale`; of a
        versioned view, the times at which `read` needs the valid versions.
        """

        async def read_entries(partitions: Sequence[int] | None) -> list[tuple[bytes, bytes]]:
            return await entries_of_key(
                self._scatter_gather, view, key, query, freshness, partitions
            )

        entries = await self._moved_keys.read(view, key, freshness, read_entries)
        clock = freshness.stream_time if view.kind.has_versions else None
        return read(cast(Store, MergedEntries(entries, clock)))

    async def entries_by_partition(
        self,
        view: View,
        key: bytes,
        query: Query,
        freshness: Freshness,
        items_of: Callable[[Store], list[bytes]],
    ) -> list[bytes]:
        """As `entries`, for each partition by itself, as JSON items."""
        partials = await self._scatter_gather.partials(
            view, _query_for_key(view, key, query), freshness, ENTRIES
        )
        return partial_items(view, partials, items_of)


def _query_for_key(view: View, key: bytes, query: Query) -> Query:
    low, high = view.layout.key_range(key, key)
    return replace(query, low=low, high=high)
