"""Queries of all partitions of a view: all owners are asked at the same time, each once per page.

Any instance can do this; it reads its own partitions itself. If an owner fails, the next replica of
its partitions is asked, until the wait time is over. Then the whole query is 503: an answer without
one of the partitions would be wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from backend.cluster.peer_client import PeerClient
from backend.instance_context import InstanceContext
from backend.queries.retry import Asker, Holder, Turn
from backend.queries.routing import refusal
from backend.queries.scans.merging import cut, distinct, first_of
from backend.queries.scans.partials import (
    EntryLimit,
    Partial,
    is_compared_by_partition,
    partials_of,
    unambiguous_rows,
)
from backend.queries.scans.partition_scan import PartitionScans, worst
from backend.queries.served_by import ServedBy
from backend.queries.turns import next_turn
from backend.wire.answer import code_of
from backend.wire.scan import NEVER, Query, Row, ScanResponse
from backend.wire.scan_codec import (
    ENTRIES,
    ESTIMATE,
    RAW,
    ROWS,
    ScanRequest,
    check_response,
    decode_response,
    encode_request,
)
from model.problems import NonRetryable, Problem, Unavailable
from model.records import is_tombstone
from model.views import ANY_PARTITION, View

SCAN_PATH = b"/internal/scan"
WALK_BUDGET = 50.0  # s to reduce all partitions: less than the time-out of a proxy

# of an answer without pages: for a key that may be in any partition, and in KIQR's dialect
MAX_ENTRIES = 10_000
MAX_ENTRIES_BYTES = 16 << 20
_ENTRIES_PAGE = 2_000

_WHY = {
    "catching-up": "is catching up",
    "not-here": "is moving from one instance to another",
    "nobody": "is held by no instance now",
    "not-active": "is no longer active on the instance that was asked",
    "owner-unreachable": "is held by an instance that does not answer",
    "overloaded": "is held by an instance that runs too many scans",
    "store-damaged": "cannot be read, and is being rebuilt",
    "repartitioned": "has entries from before partitions were added: a key may be in two of them, "
    "and it is not known which is its latest. Rebuild the view (remove its data folder) once its "
    "producers have written the keys again",
}


@dataclass
class Freshness:
    """The highest lag and staleness of the partitions that were read; None if one is unknown."""

    lags: list[int | None] = field(default_factory=list)
    ages: list[float | None] = field(default_factory=list)
    mispartitioned: bool = False  # a key may be in several partitions
    stream_time: int | None = None  # ms; the latest of all
    answerers: ServedBy = field(default_factory=ServedBy)
    entries: int = 0  # that were read; a key in two partitions has two

    def note(self, part: ScanResponse) -> None:
        # only the highest so far is needed
        self.lags = [worst([*self.lags, part.lag])]
        self.ages = [worst([*self.ages, part.staleness])]
        self.mispartitioned = self.mispartitioned or part.mispartitioned
        self.entries += part.counted
        if part.stream_time is not None:
            self.stream_time = max(part.stream_time, self.stream_time or part.stream_time)
        if part.instance:
            self.answerers.add(part.instance, part.roles)

    @property
    def lag(self) -> int | None:
        return worst(self.lags)

    @property
    def staleness(self) -> float | None:
        return worst(self.ages)


class StopWalk(Exception):
    """Ends a walk early: raised by the function that takes the responses, and passed on."""


@dataclass
class _Group:
    """Partitions that one request asks for. All are read up to the same key."""

    partitions: list[int]
    reached: bytes | None = None
    ended: bool = False


class ScatterGather:
    """Asks all instances that hold partitions of a view."""

    def __init__(
        self, context: InstanceContext, scans: PartitionScans, peer_client: PeerClient
    ) -> None:
        self._context = context
        self._scans = scans
        self._asker = Asker(context, peer_client)

    def total(self, view: View) -> int:
        """The view's number of partitions. NonRetryable if a scan could give wrong answers."""
        placed = self._context.placed(view)
        count = len(placed.active)
        metadata = self._context.metadata_poller.latest.get(view.topic)
        known = count if metadata is None else metadata.partitions
        moved = placed.built_partitions not in (count, 0) and view.partitioner != ANY_PARTITION
        if moved or known != count:
            raise NonRetryable("repartitioned", f"View {view.name} {_WHY['repartitioned']}.")
        return count

    def is_mispartitioned(self, view: View) -> bool:
        """Whether a key of the view may be in several partitions, as far as is known here."""
        return self._context.store_partitions.is_mispartitioned(view)

    def request(
        self,
        view: View,
        what: str,
        query: Query,
        limit: int = 0,
        arguments: Mapping[str, Any] | None = None,
    ) -> ScanRequest:
        """A request for all partitions of a view. NonRetryable as `total`."""
        return ScanRequest(
            view.name, view.hash, self.total(view), what, query, limit, arguments or {}
        )

    async def ask(
        self, request: ScanRequest, partitions: list[int], after: bytes | None = None
    ) -> list[tuple[list[int], ScanResponse]]:
        """Responses that cover all the partitions, each with those that it covers. Unavailable."""
        answers: list[tuple[list[int], ScanResponse]] = []
        left = list(partitions)
        missing: dict[int, str] = {}
        rounds = self._asker.rounds()

        async def attempt() -> bool:
            nonlocal left, missing
            missing = {}
            by_turn: dict[Turn[Holder], list[int]] = {}
            for partition in left:
                holders = self._holders(request, partition)
                if isinstance(holders, str):
                    missing[partition] = holders
                    continue
                by_turn.setdefault(rounds.turn(partition, holders), []).append(partition)
            responses = await asyncio.gather(
                *(
                    self._ask_holder(turn, request, theirs, after)
                    for turn, theirs in by_turn.items()
                )
            )
            for theirs, response in zip(by_turn.values(), responses, strict=True):
                missing.update(response.missing)
                covered = [partition for partition in theirs if partition not in response.missing]
                if covered:
                    answers.append((covered, response))
            left = sorted(missing)
            return bool(missing) and "repartitioned" not in missing.values()

        await rounds.repeat(attempt)
        if missing:
            raise _unavailable(request.view, missing)
        return answers

    async def estimate(self, view: View, query: Query, freshness: Freshness) -> int:
        """RocksDB's estimate of the number of entries in all partitions. Unavailable."""
        request = self.request(view, ESTIMATE, query)
        count = 0
        for _, response in await self.ask(request, list(range(request.total))):
            freshness.note(response)
            count += response.counted
        return count

    def _holders(self, request: ScanRequest, partition: int) -> list[Holder] | str:
        """The instances to ask, in order (None: this one); or the problem code if there is none."""
        context = self._context
        placed = context.topology.views.get(request.view)
        if placed is None or len(placed.active) != request.total:
            return "repartitioned"
        stale = request.query.stale
        others = context.others(request.view, partition, stale)
        holders: list[Holder] = [*others]
        active = context.topology.active_of(request.view, partition)
        if stale == NEVER:
            return [None] if active == context.me else holders or "nobody"
        store_partition = context.store_partitions.get(request.view, partition)
        if store_partition is not None and refusal(store_partition, stale) is None:
            # the active first, to spread the load; then this instance, which needs no request
            is_local = context.views[request.view].kind.on_all_instances
            is_second = not is_local and bool(others) and others[0] == active
            holders.insert(int(is_second), None)
        elif store_partition is not None or context.me in context.topology.holders_of(
            request.view, partition
        ):
            holders.append(None)  # it knows the reason for the refusal
        return holders or "nobody"

    async def _ask_holder(
        self, turn: Turn[Holder], request: ScanRequest, partitions: list[int], after: bytes | None
    ) -> ScanResponse:
        owner, others_left = turn
        await next_turn()  # many may begin at once
        if owner is None:
            response = await self._scans.answer(request, partitions, after)
            response.instance = self._context.settings.instance_id
            return response
        body = encode_request(request, partitions, after)
        try:
            answer = await self._asker.ask(owner, others_left, "POST", SCAN_PATH, [], body)
        except Unavailable as e:
            return ScanResponse(missing=dict.fromkeys(partitions, e.code))
        code = "owner-unreachable"  # also if it is an older version that refuses the request
        try:
            if answer.status == 200:
                response = decode_response(answer.body)
                check_response(response, request, partitions, after)
                response.instance = owner.id
                return response
            if answer.status == 503:
                code = code_of(answer)
        except ValueError:
            pass
        return ScanResponse(missing=dict.fromkeys(partitions, code))

    async def rows(
        self,
        view: View,
        query: Query,
        size: int,
        after: bytes | None,
        freshness: Freshness,
        what: str = ROWS,
    ) -> AsyncGenerator[tuple[list[Row], bytes | None], None]:
        """All rows after `after` in order, in steps. Each step has the key up to which all rows
        have been given (None: to the end). Asks every owner for up to `size` rows at a time.

        The first step comes only after all partitions have responded. Unavailable at any step.
        `what`: one of ROW_KINDS.
        """
        total = self.total(view)
        request = ScanRequest(view.name, view.hash, total, what, query, size)
        groups = [_Group(list(range(total)), after)]
        pending: list[Row] = []
        frontier = after
        while True:
            behind = [g for g in groups if not g.ended and g.reached == frontier]
            answered = await asyncio.gather(
                *(self.ask(request, group.partitions, group.reached) for group in behind)
            )
            responses = [each for answers in answered for each in answers]
            await next_turn()  # merging many rows is a step of its own
            groups = [group for group in groups if group not in behind]
            for partitions, response in responses:
                freshness.note(response)
                pending += response.rows
                groups.append(_Group(partitions, response.reached, response.reached is None))
            reached = [g.reached for g in groups if g.reached is not None and not g.ended]
            before, frontier = frontier, first_of(reached, query.backwards) if reached else None
            pending.sort(reverse=query.backwards)
            certain = cut(pending, frontier, query.backwards)
            ready, pending = pending[:certain], pending[certain:]
            rows = distinct(ready, _head)
            if view.is_partial and freshness.mispartitioned:
                several = len(rows) < len(ready) or not all(
                    response.complete for _, response in responses
                )
                if several or is_compared_by_partition(view, what == ENTRIES):
                    # the rows given so far are right
                    steps = unambiguous_rows(self.ask, view, request, before, freshness.note)
                    async with aclosing(steps):
                        async for step in steps:
                            yield step
                    return
            if what != ENTRIES:
                # a tombstone that is the newest of its key is no row
                rows = [row for row in rows if not is_tombstone(row[1])]
            yield rows, frontier
            if frontier is None:
                return

    async def partials(
        self, view: View, query: Query, freshness: Freshness, what: str = RAW
    ) -> list[Partial]:
        """What each partition has for the key that `query` asks for. RAW: the value; ENTRIES: all
        entries and tombstones. Unavailable; BadRequest if it is too much."""
        request = self.request(view, what, query, _ENTRIES_PAGE)
        return await partials_of(self.ask, request, freshness.note, _entry_limit())

    async def of_key(
        self, view: View, key: bytes, query: Query, freshness: Freshness
    ) -> list[tuple[bytes, bytes]]:
        """All entries and tombstones of a key in all partitions, in order: stored keys and bytes.
        `query`: the times, and `stale`. Unavailable; BadRequest if it is too much."""
        low, high = view.layout.key_range(key, key)
        found: list[tuple[bytes, bytes]] = []
        limit = _entry_limit()
        steps = self.rows(
            view, replace(query, low=low, high=high), _ENTRIES_PAGE, None, freshness, ENTRIES
        )
        async with aclosing(steps):
            async for rows, _ in steps:
                found += [(stored_key, head + value) for stored_key, head, value in rows]
                limit.add(rows)
        return found

    async def walk(
        self, request: ScanRequest, budget: float, take: Callable[[ScanResponse], Awaitable[None]]
    ) -> None:
        """Give `take` the responses of each partition, slice by slice, in no order.

        All owners are asked at the same time, but each for one partition at a time: two would not
        be faster there, and point reads would wait longer. Unavailable, also if it takes more than
        `budget` s; StopWalk if `take` raises it.
        """
        deadline = time.monotonic() + budget
        turns: defaultdict[object, asyncio.Lock] = defaultdict(asyncio.Lock)

        async def whole(partition: int) -> None:
            after: bytes | None = None
            async with turns[self._holders(request, partition)[0]]:
                while True:
                    if time.monotonic() > deadline:
                        raise Unavailable("took-too-long", f"It took more than {budget:.0f} s.")
                    [(_, response)] = await self.ask(request, [partition], after)
                    await take(response)
                    after = response.reached
                    if after is None:
                        return

        await _all(whole(partition) for partition in range(request.total))


async def _all(walks: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all at the same time, until one fails: then its Problem or StopWalk is raised.

    An exception that refers to itself, by a frame of its traceback or as the context of its own
    group, would keep all that was merged so far until the garbage collector runs.
    """
    group = asyncio.TaskGroup()
    reason: BaseException | None = None
    try:
        async with group:
            for walk in walks:
                group.create_task(walk)
    except BaseExceptionGroup as failed:
        # the tasks start no groups: these are plain exceptions
        known = [each for each in failed.exceptions if isinstance(each, Problem | StopWalk)]
        if not known:
            raise
        reason = known.pop(0)
        known.clear()
        failed.__traceback__ = None  # its frame in `asyncio.taskgroups` refers to it
    del group
    if reason is not None:
        try:
            raise reason
        finally:
            del reason


def _entry_limit() -> EntryLimit:
    return EntryLimit(MAX_ENTRIES, MAX_ENTRIES_BYTES)


def _head(row: Row) -> bytes:
    return row[1]


def _unavailable(view: str, missing: dict[int, str]) -> Unavailable:
    partition = min(missing)
    code = missing[partition]
    why = _WHY.get(code, "cannot be answered for")
    return Unavailable(code, f"Partition {partition} of view {view} {why}.", partition=partition)
