"""Scans of this instance's partitions: rows in key order, estimates, and entries for a reducer.

They run in the event loop, and yield after every step, 1,000 entries or 256 KiB. A response ends
after a number of rows, entries or bytes, or after 0.1 s; the sender continues after the key that
the response has reached. A partition that cannot be read is in `missing` with the reason, and has
no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from backend.ingest.store_partitions import StorePartition
from backend.instance.context import QueryContext
from backend.queries.arrow.loading import can_load
from backend.queries.filters.condition import Condition, condition_of
from backend.queries.filters.index_plan import IndexPlan, index_plan
from backend.queries.filters.plan import KEY_PLAN, plan_of
from backend.queries.filters.selection import selection_of
from backend.queries.moved_keys import is_growing, known_counts, lacks_tombstones
from backend.queries.routing import refusal
from backend.queries.scans import scan_budget
from backend.queries.scans.index_run import IndexRun, is_ready, named_keys
from backend.queries.scans.merging import cut, distinct, first_of
from backend.queries.scans.ordered_run import OrderedRun
from backend.queries.scans.partition_run import PartitionLost, PartitionRun, ScanRun
from backend.queries.scans.reducer import NewReducer, Reducer
from backend.queries.scans.scan_budget import ScanBudget
from backend.queries.turns import next_turn
from backend.wire.scan import Query, ScanResponse
from backend.wire.scan_codec import (
    BARE,
    COLUMNS,
    ENTRIES,
    ESTIMATE,
    ROW_KINDS,
    ROWS,
    ScanRequest,
)
from model.machine.clock import boot_time
from model.problems import StoreClosedError, StoreError
from model.records import ENTRY_HEAD_SIZE, is_tombstone, is_unreadable
from model.rows.row_view import Pair, Render
from model.rows.unreadable import item_of, split
from model.views import View

if TYPE_CHECKING:
    from backend.queries.arrow.batches import Batches

PAGE_BYTES = 2 << 20  # a response ends with the row that exceeds it

_N = TypeVar("_N", int, float)

_KEY, _STORED = itemgetter(0), itemgetter(1)


class MalformedArguments(ValueError):
    """A request names an unknown reducer, or arguments that it does not take."""


class PartitionScans:
    """Scans of the store partitions that are open here. `reducers`: by name."""

    def __init__(self, context: QueryContext, reducers: Mapping[str, NewReducer]) -> None:
        self._context = context
        self._reducers = reducers
        self._trusted_for = context.settings.ends_trusted_for
        self._renderers = {name: view.kind.render(view) for name, view in context.views.items()}

    async def answer(
        self,
        request: ScanRequest,
        partitions: list[int],
        after: bytes | None,
        knows_unreadable: bool = True,
    ) -> ScanResponse:
        """Scan the partitions, from `after` (exclusive). `knows_unreadable`: whether the sender
        knows unreadable entries. Raises MalformedArguments, BadRequest."""
        view = self._context.views.get(request.view)
        if view is None or view.hash != request.view_hash:
            return ScanResponse(missing=dict.fromkeys(partitions, "not-here"))
        if request.query.fields not in (None, view.fields_hash):
            return ScanResponse(missing=dict.fromkeys(partitions, "other-fields"))
        placed = self._context.group.topology.views.get(view.name)
        if placed is not None and request.total < placed.partitions:
            # the sender has an older topology, and would leave partitions out
            return ScanResponse(missing=dict.fromkeys(partitions, "repartitioned"))
        missing: dict[int, str] = {}
        store_partitions = self._readable(view, partitions, request.query.stale, missing)
        while store_partitions:
            # before the scan: lag and staleness do not count records that are applied during it
            response = self._state(view, store_partitions)
            try:
                await self._fill(response, view, request, store_partitions, after)
                for p in store_partitions:
                    self._check(p)
                    if p.metadata.unreadable_values and not knows_unreadable:
                        raise PartitionLost(p, "older-version")  # the sender would see deletes
                    if code := refusal(p, request.query.stale):  # its role may have changed
                        raise PartitionLost(p, code)
                # after the scan: with an earlier stream time, entries that the scan has left out
                # might not have expired
                clocks = [p.store.stream_time for p in store_partitions]
                known = [clock for clock in clocks if clock is not None]
                response.stream_time = max(known, default=None)
                break
            except PartitionLost as lost:
                missing[lost.store_partition.partition] = lost.code
                store_partitions.remove(lost.store_partition)
        else:
            response = ScanResponse()
        response.missing = missing
        return response

    def _readable(
        self, view: View, partitions: list[int], stale: str | None, missing: dict[int, str]
    ) -> list[StorePartition]:
        """The partitions that can be read; the others go to `missing`."""
        readable = []
        for partition in partitions:
            store_partition = self._context.store_partitions.get(view.name, partition)
            if store_partition is None:
                holders = self._context.group.topology.holders_of(view.name, partition)
                is_opening = self._context.group.me in holders
                missing[partition] = "catching-up" if is_opening else "not-here"
            elif code := refusal(store_partition, stale):
                missing[partition] = code
            elif lacks_tombstones(self._context, store_partition):
                missing[partition] = "repartitioned"
            else:
                readable.append(store_partition)
        return readable

    def _state(self, view: View, store_partitions: list[StorePartition]) -> ScanResponse:
        now = boot_time()
        lags = [p.progress.lag(now, self._trusted_for) for p in store_partitions]
        ages = [p.progress.staleness(now) for p in store_partitions]
        if is_growing(self._context, view):  # no instance reads the new partitions yet
            lags, ages = [None], [None]
        response = ScanResponse(
            lag=worst(lags),
            staleness=worst(ages),
            mispartitioned=self._context.store_partitions.may_be_in_several(view)
            or any(map(_has_stray_key, store_partitions)),
            positions={p.partition: p.progress.position for p in store_partitions},
            roles=tuple(sorted({p.role for p in store_partitions})),
        )
        # after the positions: ingest learns of a number before it applies records written with it
        if not self._context.store_partitions.is_mispartitioned(view):
            response.partition_counts = tuple(sorted(known_counts(self._context, view)))
        return response

    def _check(self, store_partition: StorePartition) -> None:
        """PartitionLost if the store partition was closed or found damaged during the scan."""
        id_ = store_partition.view.name, store_partition.partition
        if self._context.store_partitions.get(*id_) is not store_partition:
            raise PartitionLost(store_partition, "not-here")
        if store_partition.damaged is not None:
            raise PartitionLost(store_partition, "store-damaged")

    async def _fill(
        self,
        response: ScanResponse,
        view: View,
        request: ScanRequest,
        store_partitions: list[StorePartition],
        after: bytes | None,
    ) -> None:
        low, high = request.query.rest(view, after)
        if request.what == ESTIMATE:
            await self._estimate(response, view, request, store_partitions)
            return
        reducer = self._reducer(view, request) if request.is_reduced else None
        batches = await _batches(view, request) if request.what == COLUMNS else None
        if low >= high or (batches is not None and response.mispartitioned):
            return  # instead of columns, the sender asks for rows, of which it finds the newest
        # the sender compares tombstones with the entries of other partitions
        with_deletes = request.what == ENTRIES or (reducer is None and response.mispartitioned)
        condition = self._condition(view, request.query)
        if reducer is None and response.mispartitioned:
            # the sender compares entries of several partitions before it filters them
            condition = None
        keys = None if condition is None else condition.keys
        plan = _index_plan(view, request, condition)
        runs: list[PartitionRun] = []
        stored_keys: dict[bytes, bytes] | None = None if request.query.order_by is None else {}
        for store_partition in store_partitions:
            if stored_keys is not None:
                runs.append(
                    OrderedRun(store_partition, request.query, after, condition, stored_keys)
                )
                continue
            named = await self._index_run(store_partition, request, low, high, plan)
            run = named or ScanRun(
                store_partition,
                request.query,
                low,
                high,
                once=reducer is not None,
                with_deletes=with_deletes,
                all_versions=request.what == ENTRIES,
                keys=keys,
            )
            runs.append(run)
        response.plans = tuple(sorted({run.plan for run in runs}))
        if stored_keys is not None:
            condition = None  # runs have compared the entries
        budget = ScanBudget(request.query.max_examined)
        try:
            if batches is not None:
                [only_run] = runs
                await self._columns(response, batches, only_run, budget, condition)
            elif reducer is None:
                await self._rows(response, view, request, runs, budget, condition, stored_keys)
            else:
                [only_run] = runs
                await self._reduce(response, reducer, only_run, budget, condition)
        finally:
            response.examined = budget.examined
            self._context.telemetry.scans[view.name].note_entries(budget.by_plan)

    async def _estimate(
        self,
        response: ScanResponse,
        view: View,
        request: ScanRequest,
        store_partitions: Sequence[StorePartition],
    ) -> None:
        """How the entries of a query would be found, and about how many would be read."""
        query = request.query
        low, high = query.low, query.high
        condition = None if response.mispartitioned else self._condition(view, query)
        plan = _index_plan(view, request, condition)
        is_by_key = condition is not None and condition.keys is not None
        unnamed = KEY_PLAN if is_by_key else plan_of(low, high)
        plans = set()
        for store_partition in store_partitions:
            named = await self._index_run(store_partition, request, low, high, plan)
            count = store_partition.entries() if named is None else named.count()
            plans.add(unnamed if named is None else named.plan)
            response.counted += count
        response.plans = tuple(sorted(plans))

    async def _index_run(
        self,
        store_partition: StorePartition,
        request: ScanRequest,
        low: bytes,
        high: bytes,
        plan: IndexPlan | None,
    ) -> IndexRun | None:
        """The entries that an index names; None if they must be scanned, or if that costs less.
        Raises PartitionLost if the query must not scan them."""
        query = request.query
        if plan is None or not is_ready(store_partition, plan):
            if query.by_index:
                raise PartitionLost(store_partition, "index-building")
            return None
        limit = request.limit if request.what in ROW_KINDS else None
        keys = await named_keys(store_partition, plan, query, low, high, limit)
        if keys is None:
            return None
        return IndexRun(store_partition, query, low, high, plan.name, keys)

    def _condition(self, view: View, query: Query) -> Condition | None:
        if query.where is None:
            return None
        try:
            return condition_of(view, query.where)
        except ValueError as e:
            raise MalformedArguments(f"a malformed condition: {e}") from None

    def _reducer(self, view: View, request: ScanRequest) -> Reducer:
        new_reducer = self._reducers.get(request.what)
        if new_reducer is None:
            raise MalformedArguments(f"a scan of unknown kind {request.what!r}")
        try:
            return new_reducer(view, request.arguments)
        except ValueError:
            raise MalformedArguments(f"malformed arguments of {request.what!r}") from None

    async def _rows(
        self,
        response: ScanResponse,
        view: View,
        request: ScanRequest,
        runs: list[PartitionRun],
        budget: ScanBudget,
        condition: Condition | None,
        stored_keys: Mapping[bytes, bytes] | None,
    ) -> None:
        """Merges the runs as far as all of them have been read, until there are enough rows that
        meet the condition. `stored_keys`: by place, if rows are in the order of an index."""
        backwards = request.query.backwards
        render = self._renderers[view.name] if request.what == ROWS else _values
        if request.what == BARE:
            render = _empty_items
        select = request.query.select
        selection = None if select is None or request.what != ROWS else selection_of(view, select)
        share = min(scan_budget.YIELD_AFTER, request.limit * 5 // (4 * len(runs)) + 8)
        pending: list[Pair] = []
        frontier: bytes | None = None
        size = 0
        while True:
            for run in runs:
                if not run.ended and (run.reached is None or run.reached == frontier):
                    pending += run.read(min(share, budget.chunk))
                    if budget.count_chunk(run):
                        await next_turn()
                        budget.begin_step()
                        self._check(run.store_partition)
            open_ = [run for run in runs if not run.ended]
            if any(run.reached is None for run in open_):
                continue
            reached = [run.reached for run in open_ if run.reached is not None]
            frontier = first_of(reached, backwards) if reached else None
            pending.sort(reverse=backwards)
            certain = cut(pending, frontier, backwards)
            certain_rows, pending = pending[:certain], pending[certain:]
            ready = distinct(certain_rows, _STORED)
            response.complete = response.complete and len(ready) == certain
            examined = len(certain_rows)
            if condition is not None:
                ready = await _kept(condition, ready, budget)
            fitting = _fitting(ready, request.limit - len(response.rows), PAGE_BYTES - size)
            is_full = fitting < len(ready)
            if is_full:
                del ready[fitting:]
                frontier = ready[-1][0]
                examined = cut(certain_rows, frontier, backwards)
            response.counted += examined
            size += sum(len(stored) for _, stored in ready)
            heads = [stored[:ENTRY_HEAD_SIZE] for _, stored in ready]
            named = ready
            if stored_keys is not None:
                named = [(stored_keys[place], stored) for place, stored in ready]
            if selection is not None:
                items = selection.items(named)
            else:
                items = items_of(view, named, render, request.what == ROWS)
            response.rows += zip(map(_KEY, ready), heads, items, strict=True)
            response.reached = frontier
            is_full = is_full or len(response.rows) >= request.limit or size >= PAGE_BYTES
            if frontier is None or is_full or budget.is_spent():
                return

    async def _columns(
        self,
        response: ScanResponse,
        batches: Batches,
        run: PartitionRun,
        budget: ScanBudget,
        condition: Condition | None,
    ) -> None:
        """One row with a part of an Arrow stream."""
        size = 0
        while not run.ended and (run.reached is None or not budget.is_spent()):
            pairs = run.read(min(budget.chunk, batches.room))
            size += run.got_bytes
            batches.add(pairs if condition is None else condition.kept(pairs))
            if budget.count_chunk(run):
                await next_turn()
                budget.begin_step()
                self._check(run.store_partition)
            if not batches.room or size >= PAGE_BYTES:
                break
        response.reached = None if run.ended else run.reached
        if batches.rows:
            response.rows = [(b"", bytes(ENTRY_HEAD_SIZE), batches.part())]

    async def _reduce(
        self,
        response: ScanResponse,
        reducer: Reducer,
        run: PartitionRun,
        budget: ScanBudget,
        condition: Condition | None,
    ) -> None:
        while not run.ended and (run.reached is None or not budget.is_spent()):
            pairs = run.read(budget.chunk)
            if condition is not None:
                pairs = condition.kept(pairs)
            if run.store_partition.metadata.unreadable_values:
                pairs, unreadable = split(run.store_partition.view, pairs)
                response.unreadable += unreadable
            reducer.add(pairs)
            if budget.count_chunk(run):
                await next_turn()
                budget.begin_step()
                self._check(run.store_partition)
        await reducer.fill(response)
        response.reached = None if run.ended else run.reached


async def _batches(view: View, request: ScanRequest) -> Batches:
    """Raises MalformedArguments if this instance has not the columns that the sender expects."""
    if not await can_load():
        raise MalformedArguments("a scan for Arrow, which this instance does not have")
    from backend.queries.arrow.batches import Batches

    try:
        return Batches(view, request.query.select, request.arguments, request.limit)
    except ValueError as e:
        raise MalformedArguments(str(e)) from None


def _index_plan(view: View, request: ScanRequest, condition: Condition | None) -> IndexPlan | None:
    """The plan for all partitions: even a plan that is kept takes some time to find."""
    if condition is None or request.what == ENTRIES:
        return None
    if condition.keys is not None and not request.query.by_index:
        return None  # a key has fewer entries than a value of a field
    return index_plan(view, condition)


async def _kept(condition: Condition, pairs: Sequence[Pair], budget: ScanBudget) -> list[Pair]:
    """The entries that `Condition.kept` returns. Each of several runs has read a chunk, so there is
    a turn between chunks."""
    kept: list[Pair] = []
    size = budget.chunk
    for start in range(0, len(pairs), size):
        if start and budget.has_step_ended():
            await next_turn()
            budget.begin_step()
        kept += condition.kept(pairs[start : start + size])
    return kept


def worst(numbers: Sequence[_N | None]) -> _N | None:
    """The greatest; None if one is unknown, or if there are none."""
    known = [number for number in numbers if number is not None]
    return max(known) if known and len(known) == len(numbers) else None


def _values(pairs: Iterable[Pair]) -> list[bytes]:
    return [stored[ENTRY_HEAD_SIZE:] for _, stored in pairs]


def _empty_items(pairs: Iterable[Pair]) -> list[bytes]:
    return [b"" for _ in pairs]


def items_of(view: View, pairs: list[Pair], render: Render, is_json: bool) -> list[bytes]:
    """The item of each entry; empty for a tombstone. That of an unreadable entry is JSON, or the
    rest of the placed entry."""
    plain = [pair for pair in pairs if pair[1][8] < 0x80]
    if len(plain) == len(pairs):
        return render(pairs)
    items = iter(render(plain))
    rendered = []
    for pair in pairs:
        if is_tombstone(pair[1]):
            rendered.append(b"")
        elif not is_unreadable(pair[1]):
            rendered.append(next(items))
        else:
            item = item_of(view, render, pair) if is_json else pair[1][ENTRY_HEAD_SIZE:]
            rendered.append(item)
    return rendered


def _fitting(rows: list[Pair], room: int, space: int) -> int:
    """How many of the rows fit: up to `room`, and up to the one that exceeds `space` bytes."""
    fitting = min(len(rows), room)
    if sum(len(stored) for _, stored in rows[:fitting]) <= space:
        return fitting
    for number, (_, stored) in enumerate(rows[:fitting], 1):
        space -= len(stored)
        if space < 0:
            return number
    return fitting


def _has_stray_key(store_partition: StorePartition) -> bool:
    """Whether it has an entry or a tombstone of a key that may be in other partitions, too."""
    stray = store_partition.view.stray_keys
    if stray is None:
        return False
    try:
        return any(True for _ in store_partition.store.scan(*stray))
    except (StoreClosedError, StoreError):
        return False  # the scan itself says so
