"""Reads of a key that may be in any partition: all of them are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

from backend.ingest.protocols import Store
from backend.queries.page import first_rows
from backend.queries.scans.merged_entries import MergedEntries
from backend.queries.scans.partial_items import partial_items, partial_values
from backend.queries.scans.scatter_gather import Freshness, ScatterGather
from backend.wire.scan import Query
from backend.wire.scan_codec import ENTRIES, RAW
from model.problems import Unavailable
from model.views import View

_T = TypeVar("_T")


class AnyPartitionReads:
    """Point reads and histories from all partitions of a view.

    Each notes in `freshness` how fresh the partitions are and which instances read; Unavailable.
    """

    def __init__(self, scatter_gather: ScatterGather) -> None:
        self._scatter_gather = scatter_gather

    async def newest(
        self, view: View, key: bytes, stale: str | None, freshness: Freshness
    ) -> bytes | None:
        """The record bytes of the key's newest entry; None if it is missing."""
        rows, reached = await first_rows(
            self._scatter_gather, view, _of_key(view, key, Query(stale=stale)), 1, freshness,
            what=RAW,
        )  # fmt: skip
        if not rows and reached is not None:
            raise Unavailable("took-too-long", "Not all partitions have answered in time.")
        return rows[0][2] if rows else None

    async def values(
        self, view: View, key: bytes, stale: str | None, freshness: Freshness
    ) -> list[bytes]:
        """The value in each partition that has one, as JSON items."""
        query = _of_key(view, key, Query(stale=stale))
        found = await self._scatter_gather.partials(view, query, freshness)
        return partial_values(view, found)

    async def entries(
        self,
        view: View,
        key: bytes,
        query: Query,
        freshness: Freshness,
        read: Callable[[Store], _T],
    ) -> _T:
        """What `read` finds among all stored entries of a key, in whichever partitions they are.

        Expired entries are left out, except versions. `query`: the times, and `stale`.
        """
        entries = await self._scatter_gather.of_key(view, key, query, freshness)
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
        found = await self._scatter_gather.partials(
            view, _of_key(view, key, query), freshness, ENTRIES
        )
        return partial_items(view, found, items_of)


def _of_key(view: View, key: bytes, query: Query) -> Query:
    low, high = view.layout.key_range(key, key)
    return replace(query, low=low, high=high)
