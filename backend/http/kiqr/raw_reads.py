"""Entries as record bytes, for threads: questions that the event loop asks of all instances.

The look-ups are those of the queries about whole views; a key that has one partition is asked of
that one alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as TooLate
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

from backend.instance_context import InstanceContext
from backend.queries.point import ViewReads
from backend.queries.scans.scatter_gather import (
    MOST_ENTRIES,
    MOST_ENTRIES_BYTES,
    Freshness,
    ScatterGather,
    StopWalk,
)
from backend.queries.whole_view.count import COUNT
from backend.wire.scan import Query, ScanResponse
from backend.wire.scan_codec import BARE, ESTIMATE, RAW
from model.kinds.layout import EntryKey
from model.problems import BadRequest, Unavailable
from model.views import ANY_PARTITION, View

MOST_COUNTED = 100_000  # one by one; of more an estimate is given
COUNTING_SECONDS = 5.0  # as long as KIQR waits for its own instances
_PATIENCE = 20.0  # s for one question
_PAGE = 2_000

_T = TypeVar("_T")


class RawEntry(NamedTuple):
    """Key and times, and the record's value."""

    key: EntryKey
    value: bytes


class Count(NamedTuple):
    """How many entries; an estimate unless `is_exact`."""

    number: int
    is_exact: bool


class RawReads:
    """Blocking questions; to be asked from any thread but the event loop's, once it is started."""

    def __init__(self, context: InstanceContext) -> None:
        self._context = context
        self._reads = {
            name: ViewReads(view, context)
            for name, view in context.views.items()
            if not view.is_custom and view.partitioner != ANY_PARTITION
        }
        self._scatter_gather: ScatterGather | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, scatter_gather: ScatterGather) -> None:
        """In the event loop."""
        self._scatter_gather = scatter_gather
        self._loop = asyncio.get_running_loop()

    def of_key(
        self, view: View, key: bytes, first: int | None = None, last: int | None = None
    ) -> list[RawEntry]:
        """All entries of a key whose time is within first..last (ms); BadRequest, Unavailable."""
        low, high = view.layout.key_range(key, key)
        return self._ask(self._of_key(view, key, Query(low, high, first=first, last=last)))

    def scan(self, view: View, first: bytes | None, last: bytes | None) -> list[RawEntry]:
        """All entries with first <= key <= last in the keys' order; BadRequest, Unavailable."""
        low, high = view.layout.key_range(first, last)
        return self._ask(self._entries(view, Query(low, high), Freshness()))

    def count(self, view: View) -> Count:
        """How many entries the view has; an estimate only if they are more than MOST_COUNTED, or
        cannot be counted within COUNTING_SECONDS. Unavailable."""
        return self._ask(self._count(view))

    def _ask(self, question: Coroutine[Any, Any, _T]) -> _T:
        if self._loop is None:
            question.close()
            raise Unavailable("no-topology", "This instance is being started.")
        asked = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return asked.result(_PATIENCE)
        except TooLate:
            asked.cancel()
            raise Unavailable("took-too-long", f"It took more than {_PATIENCE:.0f} s.") from None

    async def _of_key(self, view: View, key: bytes, query: Query) -> list[RawEntry]:
        assert self._scatter_gather is not None
        reads = self._reads.get(view.name)
        freshness = Freshness(
            mispartitioned=reads is None or self._context.store_partitions.is_mispartitioned(view)
        )
        found: list[RawEntry] = []
        if reads is not None and not freshness.mispartitioned:
            found = await self._entries(view, query, freshness, reads.partition(key))
        if freshness.mispartitioned:
            # the newest of all partitions
            found = await self._entries(view, query, freshness)
        counts = self._context.counts[view.name]
        counts.found += bool(found)
        counts.missed += not found
        return found

    async def _entries(
        self, view: View, query: Query, freshness: Freshness, only: int | None = None
    ) -> list[RawEntry]:
        assert self._scatter_gather is not None
        row_key = view.kind.row_key
        found: list[RawEntry] = []
        size = 0
        steps = self._scatter_gather.rows(view, query, _PAGE, None, freshness, RAW, only)
        async with aclosing(steps):
            async for rows, _ in steps:
                size += sum([len(key) + len(value) for key, _, value in rows])
                if len(found) + len(rows) > MOST_ENTRIES or size > MOST_ENTRIES_BYTES:
                    raise BadRequest(
                        "too-many-entries",
                        f"The answer has more than {MOST_ENTRIES} entries or "
                        f"{MOST_ENTRIES_BYTES >> 20} MiB: narrow its bounds, or stream it: GET "
                        f"/views/{view.name}/"
                        f"{view.kind.resource} with Accept: application/x-ndjson.",
                    )
                found += [
                    RawEntry(row_key(view, key, with_times=False), value) for key, _, value in rows
                ]
        return found

    async def _count(self, view: View) -> Count:
        """Counts first: RocksDB's estimate has overwritten entries in it, and can be many times
        too much even of a small view."""
        if not self._context.store_partitions.is_mispartitioned(view):
            freshness = Freshness()
            count = await self._count_of_partitions(view, freshness)
            if not freshness.mispartitioned:
                return count
        return await self._count_of_keys(view)

    async def _count_of_partitions(self, view: View, freshness: Freshness) -> Count:
        """The sum of all partitions; given up where a key may be in several."""
        assert self._scatter_gather is not None
        counted = 0

        async def take(part: ScanResponse) -> None:
            nonlocal counted
            freshness.note(part)
            counted += part.counted
            if freshness.mispartitioned or counted > MOST_COUNTED:
                raise StopWalk

        ask = self._scatter_gather.request(view, COUNT.name, Query())
        try:
            await self._scatter_gather.walk(ask, COUNTING_SECONDS, take)
        except StopWalk:
            pass
        except Unavailable as e:
            if e.code != "took-too-long":
                raise
        else:
            return Count(counted, is_exact=True)
        stored = 0 if freshness.mispartitioned else await self._stored(view)
        return Count(max(stored, counted), is_exact=False)

    async def _count_of_keys(self, view: View) -> Count:
        """Each key once, in however many partitions it is. Of many: RocksDB's estimate, less what
        the first of them suggest is a second entry of a key, or a delete."""
        assert self._scatter_gather is not None
        deadline = time.monotonic() + COUNTING_SECONDS
        freshness = Freshness()
        counted = 0
        steps = self._scatter_gather.rows(view, Query(), _PAGE, None, freshness, BARE)
        async with aclosing(steps):
            async for rows, reached in steps:
                counted += len(rows)
                if reached is None:
                    return Count(counted, is_exact=True)
                if freshness.entries > MOST_COUNTED or time.monotonic() > deadline:
                    break
        share = min(counted / max(freshness.entries, 1), 1.0)
        return Count(max(round(share * await self._stored(view)), counted), is_exact=False)

    async def _stored(self, view: View) -> int:
        """RocksDB's estimate of how many entries all partitions have."""
        assert self._scatter_gather is not None
        total = self._scatter_gather.total(view)
        ask = self._scatter_gather.request(view, ESTIMATE, Query())
        answers = await self._scatter_gather.ask(ask, list(range(total)))
        return sum(part.counted for _, part in answers)
