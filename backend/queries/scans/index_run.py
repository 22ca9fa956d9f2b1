"""The entries of one partition that an index names, in the order of a query.

Ingest may change an entry between the look at the index and the look at the entry. So the keys of
an index only say which entries to read. Each is read once, whichever index keys name it, and the
sender of the query compares it with the whole condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from heapq import merge
from itertools import islice

from backend.ingest.store_partitions import StorePartition
from backend.queries.filters.index_plan import IndexPlan
from backend.queries.scans.partition_run import PartitionRun, guarded
from backend.queries.turns import next_turn
from backend.wire.scan import Query
from model.indexes.encoding import UNREADABLE_FIELDS, Bounds, key_head, stored_key_of
from model.kinds.layout import after
from model.records import ENTRY
from model.rows.row_view import Pair

_WALKED = 1_000  # index keys between two turns
_FEW = 1_000  # an index that names no more entries is always used
# an entry that an index names costs as much as this number of entries that are scanned
_COST = 8


class IndexRun(PartitionRun):
    """Reads the entries that an index names. As PartitionRun; `got` counts index keys."""

    def __init__(
        self,
        store_partition: StorePartition,
        query: Query,
        low: bytes,
        high: bytes,
        plan: str,
        keys: Iterable[bytes],
    ) -> None:
        """`keys`: stored keys in the order of the query, each once."""
        super().__init__(store_partition, query, low, high, plan)
        self._named = iter(keys)

    def count(self) -> int:
        """The number of keys, which cannot be read after it."""
        return sum(1 for _ in self._named)

    def read(self, count: int) -> list[Pair]:
        return self._kept(guarded(self.store_partition, lambda: self._look_up(count)))

    def _look_up(self, count: int) -> list[Pair]:
        keys = list(islice(self._named, count))
        self.ended = len(keys) < count
        stored = self.store_partition.store.get_many(keys) if keys else []
        named = [(key, entry) for key, entry in zip(keys, stored, strict=True) if entry is not None]
        self.got, self.got_bytes = len(keys), sum([len(entry) for _, entry in named])
        if (indexes := self.store_partition.indexes) is not None:
            indexes.note_look_up(valid=len(named), stale=len(keys) - len(named))
        if keys:
            self.reached = keys[-1]
        return named


def is_ready(store_partition: StorePartition, plan: IndexPlan) -> bool:
    """Whether the plan's index has all entries of a store partition."""
    indexes = store_partition.indexes
    return indexes is not None and plan.index.name in indexes.ready


async def named_keys(
    store_partition: StorePartition,
    plan: IndexPlan,
    query: Query,
    low: bytes,
    high: bytes,
    limit: int | None,
) -> Iterable[bytes] | None:
    """The stored keys, low <= key < high, that the plan's index names, in the order of the query.
    None if a scan costs less. `limit`: how many entries are wanted (None: all). The index must be
    ready. Raises PartitionLost."""
    indexes = store_partition.indexes
    assert indexes is not None
    head = key_head(indexes.ready[plan.index.name])
    entries = guarded(store_partition, store_partition.entries)
    affordable = max(_FEW, entries // _COST)
    if plan.is_exact and limit is not None and limit <= affordable:
        return _in_order(store_partition, head, plan, low, high, query.backwards)
    keys: set[bytes] = set()
    walked = 0
    ranges = (*plan.ranges, UNREADABLE_FIELDS)
    for named in guarded(store_partition, partial(_keys, store_partition, head, ranges)):
        while True:
            chunk = guarded(store_partition, partial(_next, named))
            walked += len(chunk)
            if walked > affordable and not query.by_index:
                return None
            keys.update([key for key in chunk if low <= key < high])
            if len(chunk) < _WALKED:
                break
            await next_turn()
    return sorted(keys, reverse=query.backwards)


def _next(keys: Iterator[bytes]) -> list[bytes]:
    return list(islice(keys, _WALKED))


def _in_order(
    store_partition: StorePartition,
    head: bytes,
    plan: IndexPlan,
    low: bytes,
    high: bytes,
    backwards: bool,
) -> Iterator[bytes]:
    """The named keys, read as they are needed: each range has its keys in order."""
    ranges = [_rest(bounds.low, low, high) for bounds in (*plan.ranges, UNREADABLE_FIELDS)]
    runs = _keys(store_partition, head, ranges, backwards)
    last = None
    for key in merge(*runs, reverse=backwards):
        if key != last:  # a stale key may name the entry, too
            last = key
            yield key


def _rest(fields: bytes, low: bytes, high: bytes) -> Bounds:
    """The bounds of the index keys with these fields for stored keys from `low` to `high`."""
    end = after(fields) if high[:1] != ENTRY else fields + high[1:]
    return Bounds(fields + low[1:], end)


def _keys(
    store_partition: StorePartition, head: bytes, ranges: Iterable[Bounds], backwards: bool = False
) -> list[Iterator[bytes]]:
    """The stored keys that each range of an index names, all as of one moment. Otherwise an entry
    could move from a range to one that was read, and a sweep delete the key that it had."""
    absolute = [(head + low, head + high) for low, high in ranges]
    _, scans = store_partition.store.at_one_moment(absolute, backwards)
    return [(stored_key_of(key, size) for key, size in keys) for keys in scans]
