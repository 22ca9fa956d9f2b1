"""The same key in several partitions of a view in which each of them may be a partial result.

In the changelog of a Kafka Streams store a record lies in the partition of the task that wrote it.
Where the store's keys are not the keys of its input, each task has an entry of its own under the
same key: none of them is the whole, and the newest is no better than the others. From outside this
looks like a key that moved from one partition to another, so neither is guessed: the question is
refused, unless all partial results are asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from backend.queries.scans.merging import cut, first_of
from backend.wire.scan import Row, ScanResponse
from backend.wire.scan_codec import ENTRIES, ScanRequest
from model.kinds import layout
from model.problems import BadRequest, NonRetryable
from model.records import decode_entry, is_deleted
from model.views import NEWEST, View

log = logging.getLogger(__name__)

_warned: set[str] = set()


class PlacedRow(NamedTuple):
    """A row and the partition that it is from."""

    key: bytes
    head: bytes
    item: bytes
    partition: int


def is_compared_by_partition(view: View, with_times: bool) -> bool:
    """Whether a key is whole in one partition only: its sessions, or its versions, depend on each
    other. `with_times`: whether the rows of a versioned view are its versions, not the latest."""
    return view.kind.entries_depend or (view.kind.has_versions and with_times)


class Apart:
    """Compares the rows of one question, which come in the order of their stored keys."""

    def __init__(self, view: View, with_times: bool) -> None:
        """`with_times`: as above."""
        self._view = view
        self._with_times = with_times
        self._tail = 0
        if is_compared_by_partition(view, with_times):
            self._tail = view.kind.tail
        self._key: bytes | None = None  # the last one with a value, without its times
        self._partition = -1

    def whole(self, rows: Sequence[PlacedRow]) -> list[Row]:
        """One row a stored key; NonRetryable where it is not known which one is whole."""
        found: list[Row] = []
        for stored_key, same in groupby(rows, itemgetter(0)):
            of_key = list(same)
            newest = max(of_key, key=_age)
            live = [row for row in of_key if not is_deleted(row.head)]
            if len(live) > 1 or (live and newest is not live[0]):
                raise self._ambiguous(stored_key, of_key)
            if live and self._tail:
                self._refuse_two_partitions(live[0])
            found.append(newest[:3])
        return found

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
                "view %s has the same key in several partitions: it is not answered as one value. "
                'docs/kafka-streams.md says why; set same_key = "%s" if such a key has moved',
                view.name, NEWEST,
            )  # fmt: skip
        key = view.key_codec.to_json(view.kind.row_key(view, stored_key, self._with_times).key)
        partitions = sorted({*(row.partition for row in rows), *also})
        return NonRetryable(
            "ambiguous-key",
            f"Key {key.decode()[:200]} of view {view.name} has records in partitions "
            f"{', '.join(map(str, partitions))}. Each may be the partial result of one task of the "
            f"application: none is the whole. partials=all of a read by key gives all of them. If "
            f'the key has moved, set same_key = "{NEWEST}" in [views.{view.name}].',
            partitions=partitions,
        )


def _age(row: PlacedRow) -> tuple[int, int, int]:
    timestamp, offset, _ = decode_entry(row.head)
    return timestamp, offset, row.partition


@dataclass
class Partial:
    """What one partition has of a key; its stream time in ms."""

    partition: int
    rows: list[Row]
    stream_time: int | None = None


Asking = Callable[
    [ScanRequest, list[int], bytes | None], Awaitable[list[tuple[list[int], ScanResponse]]]
]
"""`ScatterGather.ask`."""


async def rows_apart(
    asking: Asking,
    view: View,
    ask: ScanRequest,
    after: bytes | None,
    note: Callable[[ScanResponse], None],
) -> AsyncGenerator[tuple[list[Row], bytes | None], None]:
    """As `ScatterGather.rows`, but each partition is asked by itself, and a row keeps its partition
    until it is known to be whole. Unavailable, NonRetryable where it is not."""
    compared = Apart(view, ask.what == ENTRIES)
    backwards = ask.query.backwards
    begin = after
    if after is not None and is_compared_by_partition(view, ask.what == ENTRIES):
        # the entries before of the same key: only compared with those behind
        key = after[: -view.kind.tail]
        begin = layout.after(key) if backwards else key
    reached: dict[int, bytes | None] = dict.fromkeys(range(ask.total), begin)
    pending: list[PlacedRow] = []
    frontier = begin
    while True:
        behind = [partition for partition, key in reached.items() if key == frontier]
        answered = await asyncio.gather(
            *(asking(ask, [partition], frontier) for partition in behind)
        )
        for partition, [(_, part)] in zip(behind, answered, strict=True):
            note(part)
            pending += [PlacedRow(*row, partition) for row in part.rows]
            reached[partition] = part.reached
            if part.reached is None:
                del reached[partition]  # it has been read to its end
        known = [key for key in reached.values() if key is not None]
        frontier = first_of(known, backwards) if known else None
        pending.sort(key=itemgetter(0), reverse=backwards)
        certain = cut(pending, frontier, backwards)
        rows = compared.whole(pending[:certain])
        pending = pending[certain:]
        if ask.what != ENTRIES:
            rows = [row for row in rows if not is_deleted(row[1])]
        if begin != after and after is not None:
            rows = [row for row in rows if (row[0] < after if backwards else row[0] > after)]
        yield rows, frontier
        if frontier is None:
            return


async def partials_of(
    asking: Asking, ask: ScanRequest, note: Callable[[ScanResponse], None], bound: Bound
) -> list[Partial]:
    """All rows of `ask`, partition by partition; Unavailable, and what `bound` raises."""

    async def of(partition: int) -> Partial:
        found = Partial(partition, [])
        after: bytes | None = None
        while True:
            [(_, part)] = await asking(ask, [partition], after)
            note(part)
            found.stream_time = part.stream_time
            found.rows += part.rows
            bound.add(part.rows)
            after = part.reached
            if after is None:
                return found

    return list(await asyncio.gather(*map(of, range(ask.total))))


class Bound:
    """How much of one key is held at once, where all partitions are asked for it."""

    def __init__(self, entries: int, size: int) -> None:
        """`size`: bytes of values."""
        self._entries, self._size = entries, size
        self._held = self._held_bytes = 0

    def add(self, rows: Sequence[Row]) -> None:
        """BadRequest where it is too much."""
        self._held += len(rows)
        self._held_bytes += sum([len(value) for _, _, value in rows])
        if self._held > self._entries or self._held_bytes > self._size:
            raise BadRequest(
                "too-many-entries",
                f"The key has more than {self._entries} entries or {self._size >> 20} MiB within "
                f"these bounds, which may be in any partition: narrow them.",
            )
