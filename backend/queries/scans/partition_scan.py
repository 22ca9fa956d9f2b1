"""What this instance answers of its own partitions: rows in key order, counts, the greatest.

Runs in the event loop: after every 1,000 entries or 256 KiB others have their turn, and an answer
ends after so many rows, or so many entries or bytes looked at; the asker goes on behind the key
that was reached. A partition that cannot be answered for is named as missing, and has no rows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TypeVar

from backend.ingest.store_partitions import StorePartition
from backend.instance_context import InstanceContext
from backend.queries.ranking import MOST_RANKED_BYTES, Best, Ranking
from backend.queries.routing import refusal
from backend.queries.scans import partition_run as partition_runs
from backend.queries.scans.merging import cut, distinct, first_of
from backend.queries.scans.partition_run import Lost, PartitionRun
from backend.wire.scan import ScanResponse
from backend.wire.scan_codec import BARE, COUNT, ENTRIES, ESTIMATE, ROWS, TOP, ScanRequest
from model.kinds.kind import Pair
from model.records import ENTRY_HEAD_SIZE, is_deleted
from model.views import View

PAGE_BYTES = 2 << 20  # an answer ends with the row that exceeds it
MOST_EXAMINED = 50_000  # entries, for one answer
MOST_EXAMINED_BYTES = 64 << 20
# s, for one answer: the asker takes an instance that is silent for longer for a hung one
# (`asking.WHILE_OTHERS_ARE_LEFT`)
SLICE = 0.1
_TURN = 1_000  # entries between two turns of the event loop, or partition_runs.CHUNK_BYTES
_CAUTIOUS = 8  # entries to begin with: their values may be large

_N = TypeVar("_N", int, float)

_KEY, _STORED = itemgetter(0), itemgetter(1)


class PartitionScans:
    """Scans of the store partitions that are open here."""

    def __init__(self, context: InstanceContext) -> None:
        self._context = context
        self._trusted_for = context.settings.ends_trusted_for
        self._renderers = {name: view.kind.render(view) for name, view in context.views.items()}

    async def answer(
        self, ask: ScanRequest, partitions: list[int], after: bytes | None
    ) -> ScanResponse:
        """Of the partitions asked for; those it cannot answer for stand in `missing`."""
        view = self._context.views.get(ask.view)
        if view is None or view.hash != ask.view_hash:
            return ScanResponse(missing=dict.fromkeys(partitions, "not-here"))
        metadata = self._context.metadata_poller.latest.get(view.topic)
        if metadata is not None and metadata.partitions != ask.total:
            return ScanResponse(missing=dict.fromkeys(partitions, "repartitioned"))
        missing: dict[int, str] = {}
        store_partitions = self._open(view, partitions, ask.query.stale, missing)
        while store_partitions:
            # before the look-up: what is applied meanwhile is not claimed
            part = self._state(view, store_partitions)
            try:
                await self._fill(part, view, ask, store_partitions, after)
                for each in store_partitions:
                    self._check(each)
                    # its role may be another one by now
                    if code := refusal(each, ask.query.stale):
                        raise Lost(each, code)
                break
            except Lost as lost:
                missing[lost.store_partition.partition] = lost.code
                store_partitions.remove(lost.store_partition)
        else:
            part = ScanResponse()
        part.missing = missing
        return part

    def _open(
        self, view: View, partitions: list[int], stale: str | None, missing: dict[int, str]
    ) -> list[StorePartition]:
        found = []
        for partition in partitions:
            store_partition = self._context.store_partitions.get(view.name, partition)
            if store_partition is None:
                holders = self._context.topology.holders_of(view.name, partition)
                opening = self._context.me in holders
                missing[partition] = "catching-up" if opening else "not-here"
            elif code := refusal(store_partition, stale):
                missing[partition] = code
            else:
                found.append(store_partition)
        return found

    def _state(self, view: View, store_partitions: list[StorePartition]) -> ScanResponse:
        now = time.monotonic()
        lags = [each.progress.lag(now, self._trusted_for) for each in store_partitions]
        ages = [each.progress.staleness(now) for each in store_partitions]
        clocks = [each.store.stream_time for each in store_partitions]
        return ScanResponse(
            lag=worst(lags),
            staleness=worst(ages),
            mispartitioned=self._context.store_partitions.is_mispartitioned(view),
            stream_time=max((time for time in clocks if time is not None), default=None),
            roles=tuple(sorted({each.role for each in store_partitions})),
        )

    def _check(self, store_partition: StorePartition) -> None:
        """What was let go meanwhile may have been read on by somebody else since."""
        if (
            self._context.store_partitions.get(store_partition.view.name, store_partition.partition)
            is not store_partition
        ):
            raise Lost(store_partition, "not-here")
        if store_partition.damaged is not None:
            raise Lost(store_partition, "store-damaged")

    async def _fill(
        self,
        part: ScanResponse,
        view: View,
        ask: ScanRequest,
        store_partitions: list[StorePartition],
        after: bytes | None,
    ) -> None:
        low, high = ask.query.rest(view, after)
        if ask.what == ESTIMATE:
            part.counted = sum(each.store.entries() for each in store_partitions)
            return
        if low >= high:
            return
        once = ask.what in (COUNT, TOP)  # all of it is looked at, and nobody goes on there
        # of a key that is in another partition as well, whoever asked compares the entries
        with_deletes = ask.what == ENTRIES or (not once and part.mispartitioned)
        runs = [
            PartitionRun(each, ask.query, low, high, once, with_deletes, ask.what == ENTRIES)
            for each in store_partitions
        ]
        pace = _Pace()
        try:
            if not once:
                await self._rows(part, view, ask, runs, pace)
                return
            # these need no common order: one after the other, and so one partition a question
            assert len(runs) == 1, "a count or a ranking that goes on goes on in one partition"
            if ask.what == COUNT:
                await self._count(part, runs[0], pace)
            else:
                await self._top(part, view, ask, runs[0], pace)
        finally:
            self._context.scans[view.name].entries += pace.examined

    async def _rows(
        self,
        part: ScanResponse,
        view: View,
        ask: ScanRequest,
        runs: list[PartitionRun],
        pace: _Pace,
    ) -> None:
        """Merges the runs as far as all of them have been read, until there are enough rows."""
        backwards = ask.query.backwards
        render = self._renderers[view.name] if ask.what == ROWS else _values
        if ask.what == BARE:
            render = _nothing
        share = min(_TURN, ask.limit * 5 // (4 * len(runs)) + 8)
        pending: list[Pair] = []
        frontier: bytes | None = None
        size = 0
        while True:
            for run in runs:
                if not run.ended and (run.reached is None or run.reached == frontier):
                    pending += run.read(min(share, pace.chunk))
                    if pace.read(run):
                        await asyncio.sleep(0)
                        self._check(run.store_partition)
            open_ = [run for run in runs if not run.ended]
            if any(run.reached is None for run in open_):
                continue
            reached = [run.reached for run in open_ if run.reached is not None]
            frontier = first_of(reached, backwards) if reached else None
            pending.sort(reverse=backwards)
            certain = cut(pending, frontier, backwards)
            found, pending = pending[:certain], pending[certain:]
            ready = distinct(found, _STORED)
            part.complete = part.complete and len(ready) == certain
            taken = _taken(ready, ask.limit - len(part.rows), PAGE_BYTES - size)
            full = taken < len(ready)
            if full:
                del ready[taken:]
                frontier = ready[-1][0]
                found = found[: cut(found, frontier, backwards)]
            part.counted += len(found)
            size += sum(len(stored) for _, stored in ready)
            heads = [stored[:ENTRY_HEAD_SIZE] for _, stored in ready]
            part.rows += zip(map(_KEY, ready), heads, _items(ready, render), strict=True)
            part.reached = frontier
            full = full or len(part.rows) >= ask.limit or size >= PAGE_BYTES
            if frontier is None or full or pace.is_over():
                return

    async def _count(self, part: ScanResponse, run: PartitionRun, pace: _Pace) -> None:
        while not run.ended and (run.reached is None or not pace.is_over()):
            part.counted += len(run.read(pace.chunk))
            if pace.read(run):
                await asyncio.sleep(0)
                self._check(run.store_partition)
        part.reached = None if run.ended else run.reached

    async def _top(
        self, part: ScanResponse, view: View, ask: ScanRequest, run: PartitionRun, pace: _Pace
    ) -> None:
        ranks_of = Ranking(view, ask.by, ask.descending).of_values
        best = Best(ask.limit, MOST_RANKED_BYTES)
        while not run.ended and (run.reached is None or not pace.is_over()):
            found = run.read(pace.chunk)
            ranks = ranks_of([stored[ENTRY_HEAD_SIZE:] for _, stored in found])
            worst = best.worst
            # keys come in their order: of a rank that is reached already, none comes in any more
            best.add(
                [
                    (rank, key, stored)
                    for rank, (key, stored) in zip(ranks, found, strict=True)
                    if rank is not None and (worst is None or rank < worst)
                ]
            )
            if pace.read(run):
                await asyncio.sleep(0)
                self._check(run.store_partition)
        told = best.entries if best.end is None else [*best.entries, best.end]
        items = self._renderers[view.name]([(key, stored) for _, key, stored in told])
        part.rows = [
            (key, stored[:ENTRY_HEAD_SIZE], item)
            for (_, key, stored), item in zip(told, items, strict=True)
        ]
        part.complete = best.end is None
        part.reached = None if run.ended else run.reached


def worst(numbers: Sequence[_N | None]) -> _N | None:
    """The greatest; None if one is unknown."""
    known = [number for number in numbers if number is not None]
    return max(known) if known and len(known) == len(numbers) else None


def _values(pairs: Iterable[Pair]) -> list[bytes]:
    return [stored[ENTRY_HEAD_SIZE:] for _, stored in pairs]


def _nothing(pairs: Iterable[Pair]) -> list[bytes]:
    return [b"" for _ in pairs]


def _items(pairs: list[Pair], render: Callable[[Iterable[Pair]], list[bytes]]) -> list[bytes]:
    """What is shown of each; of a delete nothing."""
    shown = [pair for pair in pairs if not is_deleted(pair[1])]
    if len(shown) == len(pairs):
        return render(pairs)
    items = iter(render(shown))
    return [b"" if is_deleted(stored) else next(items) for _, stored in pairs]


def _taken(rows: list[Pair], room: int, space: int) -> int:
    """How many of the rows fit: up to `room`, and up to the one that exceeds `space` bytes."""
    taken = min(len(rows), room)
    if sum(len(stored) for _, stored in rows[:taken]) <= space:
        return taken
    for number, (_, stored) in enumerate(rows[:taken], 1):
        space -= len(stored)
        if space < 0:
            return number
    return taken


class _Pace:
    """How much to read at a time, and when others shall have their turn."""

    def __init__(self) -> None:
        self.chunk = _CAUTIOUS
        self.examined = 0
        self._bytes = 0
        self._turn = 0
        self._turn_bytes = 0
        self._until = time.monotonic() + SLICE

    def is_over(self) -> bool:
        """Whether the answer has to end here."""
        if self.examined >= MOST_EXAMINED or self._bytes >= MOST_EXAMINED_BYTES:
            return True
        return time.monotonic() >= self._until

    def read(self, run: PartitionRun) -> bool:
        """After each chunk: whether to pause."""
        self.examined += run.got
        self._bytes += run.got_bytes
        self._turn += run.got
        self._turn_bytes += run.got_bytes
        if self.examined:
            average = self._bytes // self.examined + 1
            self.chunk = max(1, min(_TURN, partition_runs.CHUNK_BYTES // average))
        if self._turn < _TURN and self._turn_bytes < partition_runs.CHUNK_BYTES:
            return False
        self._turn = self._turn_bytes = 0
        return True
