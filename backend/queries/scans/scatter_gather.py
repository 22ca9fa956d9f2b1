"""Queries of all partitions of a view: all owners are asked at the same time, each once per page.

Any instance can do this, and reads its own partitions itself. If an owner fails, the next replica
of its partitions is asked, until the wait time is over. Then the whole query gets 503, because an
answer without one of the partitions would be wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from backend.cluster.peer_client import PeerClient
from backend.instance.context import QueryContext
from backend.queries.filters.condition import condition_of
from backend.queries.filters.selection import selection_of
from backend.queries.moved_keys import has_moved_keys, refuse_pushed, refuse_unplaced
from backend.queries.retry import OLDER_VERSION, Asker, Holder, Turn, knows_less
from backend.queries.routing import refusal
from backend.queries.scans.freshness import Freshness
from backend.queries.scans.merging import cut, distinct, first_of
from backend.queries.scans.missing_partitions import unavailable
from backend.queries.scans.newest_row import NewestRow
from backend.queries.scans.partials import (
    AmbiguityCheck,
    EntryLimit,
    Partial,
    SameKey,
    partials_of,
    rows_by_partition,
)
from backend.queries.scans.partition_scan import PartitionScans, items_of
from backend.queries.turns import in_steps, next_turn
from backend.wire.answer import code_of
from backend.wire.scan import KNOWS_UNREADABLE, NEVER, Query, Row, ScanResponse
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
from model.partitioner import partition_of, puts_anywhere
from model.problems import NonRetryable, Problem, Unavailable
from model.records import ENTRY_HEAD_SIZE, is_tombstone
from model.views import View

SCAN_PATH = b"/internal/scan"
WALK_BUDGET = 50.0  # s to reduce all partitions: less than the time-out of a proxy

# of an answer without pages: for a key that may be in any partition, and in KIQR's dialect
MAX_ENTRIES = 10_000
MAX_ENTRIES_BYTES = 16 << 20
_ENTRIES_PAGE = 2_000


class _SeveralPartitions(Exception):
    """Keys may be in several partitions, so owners cannot compare rows with a condition."""


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
        self, context: QueryContext, scans: PartitionScans, peer_client: PeerClient
    ) -> None:
        self._context = context
        self._scans = scans
        self._asker = Asker(context, peer_client)

    def total(self, view: View) -> int:
        """The view's number of partitions. Raises NonRetryable if a scan could give wrong
        answers."""
        count = len(self._context.group.placed(view).active)
        metadata = self._context.metadata_poller.latest.get(view.topic)
        if (
            metadata is not None
            and metadata.partitions > count
            and not metadata.were_just_added(time.monotonic())
        ):
            refuse_unplaced(view, metadata.partitions)
        if view.push is not None and has_moved_keys(self._context, view):
            refuse_pushed(view)
        return count

    def partitions_of(self, view: View, query: Query, total: int) -> Sequence[int]:
        """The partitions that can have entries of a query: those of the keys that its condition
        names, or all. At least one, so that the answer says how fresh it is."""
        keys = None if query.where is None else condition_of(view, query.where).keys
        if keys is None or self.may_be_in_several(view):
            return range(total)
        if any(puts_anywhere(view.partitioner, key) for key in keys):
            return range(total)
        home = partition_of(view.partitioner)
        return sorted({home(key, total) for key in keys}) or [0]

    def may_be_in_several(self, view: View) -> bool:
        """Whether a key of the view may be in several partitions, as far as is known here."""
        return self._context.store_partitions.may_be_in_several(view)

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
        """Responses that cover all partitions, each with the partitions that it covers.
        Raises Unavailable."""
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
                *(self._ask_holder(turn, request, asked, after) for turn, asked in by_turn.items())
            )
            for asked, response in zip(by_turn.values(), responses, strict=True):
                missing.update(response.missing)
                covered = [partition for partition in asked if partition not in response.missing]
                if covered:
                    answers.append((covered, response))
            left = sorted(missing)
            return bool(missing)

        await rounds.repeat(attempt)
        if missing:
            raise unavailable(request.view, missing)
        return answers

    async def estimate(
        self, view: View, query: Query, freshness: Freshness, only: Sequence[int] | None = None
    ) -> int:
        """RocksDB's estimate of the number of entries in all partitions, or in those of `only`.
        Raises Unavailable."""
        request = self.request(view, ESTIMATE, query)
        count = 0
        for _, response in await self.ask(request, list(only or range(request.total))):
            freshness.note(response)
            count += response.counted
        return count

    def _holders(self, request: ScanRequest, partition: int) -> list[Holder] | str:
        """The instances to ask, in order (None: this one); or the problem code if there is none."""
        context = self._context
        placed = context.group.topology.views.get(request.view)
        if placed is None or len(placed.active) != request.total:
            return "repartitioned"
        stale = request.query.stale
        other_holders = context.group.others(request.view, partition, stale)
        holders: list[Holder] = [*other_holders]
        active = context.group.topology.active_of(request.view, partition)
        if stale == NEVER:
            return [None] if active == context.group.me else holders or "nobody"
        store_partition = context.store_partitions.get(request.view, partition)
        if store_partition is not None and refusal(store_partition, stale) is None:
            # the active first, to spread the load; then this instance, which needs no request
            is_local = context.views[request.view].kind.on_all_instances
            is_second = not is_local and bool(other_holders) and other_holders[0] == active
            holders.insert(int(is_second), None)
        elif store_partition is not None or context.group.me in context.group.topology.holders_of(
            request.view, partition
        ):
            holders.append(None)  # it knows the reason for the refusal
        return holders or "nobody"

    async def _ask_holder(
        self, turn: Turn[Holder], request: ScanRequest, partitions: list[int], after: bytes | None
    ) -> ScanResponse:
        owner = turn.holder
        context, view = self._context, self._context.views[request.view]
        await next_turn()  # many requests may begin at the same time
        if owner is None:
            response = await self._scans.answer(request, partitions, after)
            response.instance = context.settings.instance_id
            return response
        body = encode_request(request, partitions, after)
        try:
            answer = await self._asker.ask(turn, "POST", SCAN_PATH, [KNOWS_UNREADABLE], body)
        except Unavailable as e:
            return ScanResponse(missing=dict.fromkeys(partitions, e.code))
        code = "owner-unreachable"
        try:
            if answer.status == 200:
                response = decode_response(answer.body)
                check_response(response, request, partitions, after)
                response.instance = owner.id
                has_read = any(p not in response.missing for p in partitions)
                if has_read and not response.mispartitioned and has_moved_keys(context, view):
                    # the owner has an older topology or version, and sends no tombstones
                    return ScanResponse(missing=dict.fromkeys(partitions, "repartitioned"))
                return response
            if answer.status == 503:
                code = code_of(answer)
            elif knows_less(answer):
                code = OLDER_VERSION
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
        partitions: Sequence[int] | None = None,
    ) -> AsyncGenerator[tuple[list[Row], bytes | None], None]:
        """All rows after `after` in order, in steps. Each step has the key up to which all rows
        have been given (None: to the end). Asks every owner for up to `size` rows at a time.

        The first step comes only after all partitions have responded. Unavailable at any step.
        `what`: one of ROW_KINDS. `partitions`: the only ones to read.
        """
        frontier = after
        needs_index = query.order_by is not None or query.by_index
        if needs_index and self.may_be_in_several(view):
            raise several_partitions(view)
        if query.where is None or not self.may_be_in_several(view):
            steps = self._rows(view, query, size, after, freshness, what, partitions)
            try:
                async with aclosing(steps):
                    async for rows, frontier in steps:
                        yield rows, frontier
                return
            except _SeveralPartitions:
                if needs_index:
                    raise several_partitions(view) from None
        # the newest row of a key is chosen before it is compared with the condition
        whole = replace(query, where=None, select=None)
        steps = self._rows(
            view, whole, size, frontier, freshness, RAW if what == ROWS else what, partitions
        )
        async with aclosing(steps):
            async for rows, reached in steps:
                kept: list[Row] = []
                async for piece in in_steps(rows):
                    kept += filtered(view, query, what, piece)
                yield kept, reached

    async def _rows(
        self,
        view: View,
        query: Query,
        size: int,
        after: bytes | None,
        freshness: Freshness,
        what: str,
        partitions: Sequence[int] | None,
    ) -> AsyncGenerator[tuple[list[Row], bytes | None], None]:
        """As `rows`. _SeveralPartitions if keys may be in several partitions, and there is a
        condition or another order."""
        total = self.total(view)
        request = ScanRequest(view.name, view.hash, total, what, query, size)
        asked = list(self.partitions_of(view, query, total) if partitions is None else partitions)
        groups = [_Group(asked, after)]
        pending: list[Row] = []
        before = frontier = after
        rule = self._rule(view, what, freshness)
        is_compared = query.where is not None or query.order_by is not None
        if rule is not None and is_compared:
            raise _SeveralPartitions
        while rule is None or not rule.asks_separately:
            behind = [g for g in groups if not g.ended and g.reached == frontier]
            answered = await asyncio.gather(
                *(self.ask(request, group.partitions, group.reached) for group in behind)
            )
            responses = [answer for answers in answered for answer in answers]
            await next_turn()  # merging many rows is another step
            groups = [group for group in groups if group not in behind]
            for covered, response in responses:
                freshness.note(response)
                pending += response.rows
                groups.append(_Group(covered, response.reached, response.reached is None))
            reached = [g.reached for g in groups if g.reached is not None and not g.ended]
            before, frontier = frontier, first_of(reached, query.backwards) if reached else None
            pending.sort(reverse=query.backwards)
            certain = cut(pending, frontier, query.backwards)
            ready, pending = pending[:certain], pending[certain:]
            rows = distinct(ready, _head)
            if is_compared and (
                freshness.mispartitioned or self._rule(view, what, freshness) is not None
            ):
                raise _SeveralPartitions
            if (rule := self._rule(view, what, freshness)) is not None:
                several = len(rows) < len(ready) or not all(
                    response.complete for _, response in responses
                )
                if several or rule.asks_separately:
                    break
            if what != ENTRIES:
                # a tombstone that is the newest of its key is not a row
                rows = [row for row in rows if not is_tombstone(row[1])]
            yield rows, frontier
            if frontier is None:
                return
        # the rows given so far are right
        steps = rows_by_partition(self.ask, view, request, asked, before, freshness.note, rule)
        async with aclosing(steps):
            async for step in steps:
                yield step

    def _rule(self, view: View, what: str, freshness: Freshness) -> SameKey | None:
        """The rule for a key in several partitions; None: the newest row, wherever it is."""
        with_times = what == ENTRIES
        if view.is_partial:
            return AmbiguityCheck(view, with_times) if freshness.mispartitioned else None
        if has_moved_keys(self._context, view):
            return NewestRow(self._context, view, with_times)
        return None

    async def partials(
        self, view: View, query: Query, freshness: Freshness, what: str = RAW
    ) -> list[Partial]:
        """What each partition has for the key that `query` asks for. RAW: the value; ENTRIES: all
        entries and tombstones. Raises Unavailable, and BadRequest if it is too much."""
        request = self.request(view, what, query, _ENTRIES_PAGE)
        limit = EntryLimit(MAX_ENTRIES, MAX_ENTRIES_BYTES)
        return await partials_of(self.ask, request, freshness.note, limit)

    async def walk(
        self,
        request: ScanRequest,
        budget: float,
        take: Callable[[ScanResponse], Awaitable[None]],
        only: Sequence[int] | None = None,
    ) -> None:
        """Give `take` the responses of each partition, or of those in `only`, slice by slice, in
        any order.

        All owners are asked at the same time, but each for one partition at a time: two would not
        be faster there, and point reads would wait longer. Unavailable, also if it takes more than
        `budget` s. Raises StopWalk if `take` raises it.
        """
        deadline = time.monotonic() + budget
        turns: defaultdict[object, asyncio.Lock] = defaultdict(asyncio.Lock)

        async def whole(partition: int) -> None:
            after: bytes | None = None
            async with turns[self._holders(request, partition)[0]]:
                while True:
                    if time.monotonic() > deadline:
                        raise took_too_long(budget)
                    [(_, response)] = await self.ask(request, [partition], after)
                    await take(response)
                    after = response.reached
                    if after is None:
                        return

        view = self._context.views[request.view]
        partitions = only or self.partitions_of(view, request.query, request.total)
        await _all(whole(partition) for partition in partitions)


def filtered(view: View, query: Query, what: str, rows: Sequence[Row]) -> list[Row]:
    """The rows that meet the condition of the query, with items of the kind `what`. `rows` have
    record values, or no items at all (BARE)."""
    pairs = [(key, head + item) for key, head, item in rows]
    if query.where is not None:
        pairs = condition_of(view, query.where).kept(pairs)
    if what != ROWS:
        return [(key, stored[:ENTRY_HEAD_SIZE], stored[ENTRY_HEAD_SIZE:]) for key, stored in pairs]
    if query.select is None:
        items = items_of(view, pairs, view.kind.render(view), is_json=True)
    else:
        items = selection_of(view, query.select).items(pairs)
    return [
        (key, stored[:ENTRY_HEAD_SIZE], item)
        for (key, stored), item in zip(pairs, items, strict=True)
    ]


def several_partitions(view: View) -> NonRetryable:
    """The problem for queries by index alone if the newest row of a key must be chosen first."""
    return NonRetryable(
        "mis-partitioned",
        f"View {view.name} has records in other partitions than those of their keys, or partitions "
        f"were added to its topic, so its rows cannot be found by an index alone.",
    )


def took_too_long(budget: float) -> Unavailable:
    """The problem for a walk that has taken more than `budget` s."""
    return Unavailable("took-too-long", f"It took more than {budget:.0f} s.")


async def _all(walks: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all walks at the same time. If one fails, raise its Problem or StopWalk.

    An exception that refers to itself, by a frame of its traceback or as the context of its own
    group, would keep all merged data in memory until the garbage collector runs.
    """
    group = asyncio.TaskGroup()
    reason: BaseException | None = None
    try:
        async with group:
            for walk in walks:
                group.create_task(walk)
    except BaseExceptionGroup as failed:
        # the tasks start no groups: these are plain exceptions
        known = [e for e in failed.exceptions if isinstance(e, Problem | StopWalk)]
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


def _head(row: Row) -> bytes:
    return row[1]
