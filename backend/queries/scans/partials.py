"""Views with the same key in several partitions. Each partition may have a partial result.

In the changelog of a Kafka Streams store, a record is in the partition of the task that wrote it.
If the store's keys are not the keys of its input, each task has an entry of its own under the same
key. None of these is the whole result, and the newest is no better than the others. From outside,
this looks like a key that has moved to another partition. There is no way to tell, so the request
is refused, unless it asks for all partial results.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol

from backend.queries.scans.merging import cut, first_of
from backend.wire.scan import Row, ScanResponse
from backend.wire.scan_codec import BARE, ENTRIES, ScanRequest
from model.kinds import layout
from model.problems import BadRequest, NonRetryable
from model.records import decode_entry, is_tombstone
from model.toml_lines import view_table
from model.views import NEWEST, View

log = logging.getLogger(__name__)

_GIVEN_PAGE = 100  # entries; most often, the first has a value

_warned: set[str] = set()


class PlacedRow(NamedTuple):
    """A row and its partition."""

    key: bytes
    head: bytes
    item: bytes
    partition: int


def is_compared_by_partition(view: View, with_times: bool) -> bool:
    """Whether all entries of a key must be in one partition, because its sessions or versions
    depend on each other. `with_times`: the rows of a versioned view are all versions."""
    return view.kind.entries_depend or (view.kind.has_versions and with_times)


class AmbiguityCheck:
    """Compares the rows of one request, in the order of their stored keys."""

    def __init__(self, view: View, with_times: bool) -> None:
        """`with_times`: see `is_compared_by_partition`."""
        self._view = view
        self._with_times = with_times
        self.compares_all = self.asks_separately = is_compared_by_partition(view, with_times)
        self._tail = view.kind.tail if self.compares_all else 0
        self._key: bytes | None = None  # the last key with a value, without its times
        self._partition = -1

    def whole(self, rows: Sequence[PlacedRow], stream_times: Mapping[int, int]) -> list[Row]:
        """One row per stored key. Raises NonRetryable if several partitions have a value."""
        newest_rows: list[Row] = []
        for stored_key, same in groupby(rows, itemgetter(0)):
            same_key = list(same)
            newest = max(same_key, key=_age)
            live = [row for row in same_key if not is_tombstone(row.head)]
            if len(live) > 1 or (live and newest is not live[0]):
                raise self._ambiguous(stored_key, same_key)
            if live and self._tail:
                self._refuse_two_partitions(live[0])
            newest_rows.append(newest[:3])
        return newest_rows

    def _refuse_two_partitions(self, row: PlacedRow) -> None:
        key = row.key[: -self._tail]
        if key == self._key and row.partition != self._partition:
            raise self._ambiguous(row.key, [row], self._partition)
        self._key, self._partition = key, row.partition

    def _ambiguous(self, stored_key: bytes, rows: Iterable[PlacedRow], *also: int) -> NonRetryable:
        view = self._view
        if view.name not in _warned:
            _warned.add(view.name)
            log.warning(
                "view %s has the same key in several partitions: reads of it are refused. "
                'docs/kafka-streams.md explains why; set same_key = "%s" if such keys have moved',
                view.name, NEWEST,
            )  # fmt: skip
        key = view.key_codec.to_json(view.kind.row_key(view, stored_key, self._with_times).key)
        partitions = sorted({*(row.partition for row in rows), *also})
        return NonRetryable(
            "ambiguous-key",
            f"Key {key.decode()[:200]} of view {view.name} has records in partitions "
            f"{', '.join(map(str, partitions))}. Each may be the partial result of one task of the "
            f"application. To get all of them, read the key with partials=all. If the key has "
            f'moved, set same_key = "{NEWEST}" in {view_table(view.name)}.',
            partitions=partitions,
        )


def _age(row: PlacedRow) -> tuple[int, int, int]:
    timestamp, offset, _ = decode_entry(row.head)
    return timestamp, offset, row.partition


@dataclass
class Partial:
    """The rows of a key in one partition. `stream_time`: in ms."""

    partition: int
    rows: list[Row]
    stream_time: int | None = None


Asking = Callable[
    [ScanRequest, list[int], bytes | None], Awaitable[list[tuple[list[int], ScanResponse]]]
]
"""The type of `ScatterGather.ask`."""


class SameKey(Protocol):
    """The rule for rows of the same key in several partitions. `compares_all`: all entries of a key
    are compared with each other. `asks_separately`: each partition must be asked separately, even
    if no stored key is in several."""

    @property
    def compares_all(self) -> bool: ...

    @property
    def asks_separately(self) -> bool: ...

    def whole(self, rows: Sequence[PlacedRow], stream_times: Mapping[int, int]) -> list[Row]:
        """One row per stored key of the sorted rows. `stream_times`: of partitions, in ms.
        Raises NonRetryable."""


async def rows_by_partition(
    asking: Asking,
    view: View,
    request: ScanRequest,
    partitions: Sequence[int],
    after: bytes | None,
    note: Callable[[ScanResponse], None],
    rule: SameKey,
) -> AsyncGenerator[tuple[list[Row], bytes | None], None]:
    """As `ScatterGather.rows`, but each partition is asked separately, so that rows of the same key
    can be compared. Raises Unavailable, and NonRetryable if the rule refuses a key."""
    if after is not None and rule.compares_all:
        # the rule first gets the entries of this key that were given before, to compare later ones
        # with them
        given_rows = _given_of_key(view, request, after)
        rule.whole(await one_of_each(asking, given_rows, partitions, note), {})
    async with aclosing(_rows_after(asking, request, partitions, after, note, rule)) as steps:
        async for step in steps:
            yield step


def _given_of_key(view: View, request: ScanRequest, after: bytes) -> ScanRequest:
    """Asks for the entries of one key from `after` back to its first, without their values."""
    query, key = request.query, after[: -view.kind.tail]
    first, end = (key, layout.after(key)) if key else layout.ALL  # a cursor may be any bytes
    if query.backwards:
        low, high = after, min(query.high, end)
    else:
        low, high = max(query.low, first), after + b"\0"
    given_before = replace(query, low=low, high=high, backwards=not query.backwards)
    what = ENTRIES if request.what == ENTRIES else BARE
    return replace(request, what=what, query=given_before, limit=_GIVEN_PAGE)


async def one_of_each(
    asking: Asking,
    request: ScanRequest,
    partitions: Sequence[int],
    note: Callable[[ScanResponse], None],
) -> list[PlacedRow]:
    """The first row with a value in each partition that has one, by stored key. Raises
    Unavailable."""

    async def first_row(partition: int) -> PlacedRow | None:
        after: bytes | None = None
        while True:
            [(_, response)] = await asking(request, [partition], after)
            note(response)
            for row in response.rows:
                if not is_tombstone(row[1]):
                    return PlacedRow(*row, partition)
            after = response.reached
            if after is None:
                return None

    rows = [row for row in await asyncio.gather(*map(first_row, partitions)) if row is not None]
    return sorted(rows, key=itemgetter(0))


async def _rows_after(
    asking: Asking,
    request: ScanRequest,
    partitions: Sequence[int],
    after: bytes | None,
    note: Callable[[ScanResponse], None],
    rule: SameKey,
) -> AsyncGenerator[tuple[list[Row], bytes | None], None]:
    """The steps of `rows_by_partition`; the rule knows the entries up to `after`."""
    backwards = request.query.backwards
    reached: dict[int, bytes | None] = dict.fromkeys(partitions, after)
    pending: list[PlacedRow] = []
    frontier = after
    stream_times: dict[int, int] = {}
    while True:
        behind = [partition for partition, key in reached.items() if key == frontier]
        answered = await asyncio.gather(
            *(asking(request, [partition], frontier) for partition in behind)
        )
        for partition, [(_, response)] in zip(behind, answered, strict=True):
            note(response)
            pending += [PlacedRow(*row, partition) for row in response.rows]
            if (time := response.stream_time) is not None:
                stream_times[partition] = max(time, stream_times.get(partition, time))
            reached[partition] = response.reached
            if response.reached is None:
                del reached[partition]  # all of it has been read
        known = [key for key in reached.values() if key is not None]
        frontier = first_of(known, backwards) if known else None
        pending.sort(key=itemgetter(0), reverse=backwards)
        certain = cut(pending, frontier, backwards)
        rows = rule.whole(pending[:certain], stream_times)
        pending = pending[certain:]
        if request.what != ENTRIES:
            rows = [row for row in rows if not is_tombstone(row[1])]
        yield rows, frontier
        if frontier is None:
            return


async def partials_of(
    asking: Asking, request: ScanRequest, note: Callable[[ScanResponse], None], limit: EntryLimit
) -> list[Partial]:
    """All rows, partition by partition. Raises Unavailable, and BadRequest if there are too
    many."""

    async def all_rows(partition: int) -> Partial:
        partial = Partial(partition, [])
        after: bytes | None = None
        while True:
            [(_, response)] = await asking(request, [partition], after)
            note(response)
            partial.stream_time = response.stream_time
            partial.rows += response.rows
            limit.add(response.rows)
            after = response.reached
            if after is None:
                return partial

    return list(await asyncio.gather(*map(all_rows, range(request.total))))


class EntryLimit:
    """Bounds the entries of one key that are in memory when all partitions are asked."""

    def __init__(self, entries: int, size: int) -> None:
        """`size`: bytes of values."""
        self._entries, self._size = entries, size
        self._count = self._bytes = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Raises BadRequest if there are too many."""
        self._count += len(rows)
        self._bytes += sum([len(value) for _, _, value in rows])
        if self._count > self._entries or self._bytes > self._size:
            raise BadRequest(
                "too-many-entries",
                f"The key has more than {self._entries} entries or {self._size >> 20} MiB in all "
                f"partitions: narrow the bounds.",
            )
