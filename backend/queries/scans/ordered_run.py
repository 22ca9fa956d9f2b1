"""The entries of one partition in the order of an index.

Rows are ordered by their *place*: the bytes of the index's fields, then the stored key. A stale key
of the index names a place that the entry has left, so it is skipped. All rows of a response are as
they were when it began: otherwise one that changes its place meanwhile could be missed.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache, partial
from itertools import chain, islice
from typing import cast

from backend.ingest.store_partitions import StorePartition
from backend.queries.filters.condition import Condition
from backend.queries.filters.index_plan import bounds_in
from backend.queries.scans.partition_run import PartitionLost, PartitionRun, guarded
from backend.wire.scan import Query
from model.indexes.declaration import DeclaredIndex
from model.indexes.encoding import (
    UNREADABLE,
    UNREADABLE_FIELDS,
    Bounds,
    fields_of_key,
    key_head,
    place_of_key,
    stored_key_of,
)
from model.indexes.fields import IndexedFields
from model.records import is_tombstone
from model.rows.row_view import Pair
from model.views import View


class OrderedRun(PartitionRun):
    """Reads entries in the order of an index. As PartitionRun, but `read` returns only entries that
    meet the condition, under their places, and `reached` is a place."""

    def __init__(
        self,
        store_partition: StorePartition,
        query: Query,
        after_place: bytes | None,
        condition: Condition | None,
        stored_keys: dict[bytes, bytes],
    ) -> None:
        """`stored_keys`: gets the stored key of each place that `read` returns. Raises
        PartitionLost if the index cannot be used here."""
        index = index_with_fields(store_partition.view, query.order_by)
        indexes = store_partition.indexes
        if index is None or indexes is None or index.name not in indexes.ready:
            raise PartitionLost(store_partition, "index-building")
        plan = f"index {index.name}"
        super().__init__(store_partition, query, query.low, query.high, plan)
        self._stored_keys = stored_keys
        self._condition = condition
        self._head = key_head(indexes.ready[index.name])
        self._fields = _fields(index, store_partition.view)
        ranges = self._ranges(bounds_in(index, condition), after_place)
        begin = partial(store_partition.store.at_one_moment, ranges, self._backwards)
        self._get, scans = guarded(store_partition, begin)
        self._index_keys = chain.from_iterable(scans)

    def _ranges(self, bounds: Bounds, after_place: bytes | None) -> list[tuple[bytes, bytes]]:
        """The ranges of index keys, in order."""
        backwards = self._backwards
        ranges = []
        for part in (bounds, UNREADABLE_FIELDS):
            low, high = self._head + part.low, self._head + part.high
            if after_place is not None and backwards:
                high = min(high, self._head + after_place[1:])
            elif after_place is not None:
                low = max(low, self._head + after_place[1:] + b"\0")
            if low < high:
                ranges.append((low, high))
        return ranges[::-1] if backwards else ranges

    def read(self, count: int) -> list[Pair]:
        return guarded(self.store_partition, lambda: self._read(count))

    def _read(self, count: int) -> list[Pair]:
        keys = list(islice(self._index_keys, count))
        self.ended = len(keys) < count
        named, within = [], 0
        for index_key, size in keys:
            stored_key = stored_key_of(index_key, size)
            if self._low <= stored_key < self._high:
                within += 1
                entry = self._get(stored_key)
                if entry is not None and not is_tombstone(entry):
                    named.append((index_key, size, stored_key, entry))
        self.got, self.got_bytes = len(keys), sum([len(entry) for *_, entry in named])
        if keys:
            self.reached = place_of_key(keys[-1][0])
        if not named:
            self._note(0, within)
            return []
        [fields] = self._fields.read([(key, entry) for _, _, key, entry in named])
        for (index_key, size, stored_key, _), own in zip(named, fields, strict=True):
            if fields_of_key(index_key, size) == UNREADABLE != own:
                self._check_key(own, stored_key)
        places = {
            stored_key: place_of_key(index_key)
            for (index_key, size, stored_key, _), own in zip(named, fields, strict=True)
            if fields_of_key(index_key, size) == own
        }
        self._note(len(places), within - len(places))
        pairs = self._kept([(key, entry) for _, _, key, entry in named if key in places])
        if self._condition is not None:
            pairs = self._condition.kept(pairs)
        placed = []
        for stored_key, entry in pairs:
            place = places[stored_key]
            self._stored_keys[place] = stored_key
            placed.append((place, entry))
        return placed

    def _note(self, valid: int, stale: int) -> None:
        if (indexes := self.store_partition.indexes) is not None:
            indexes.note_look_up(valid, stale)

    def _check_key(self, fields: bytes, stored_key: bytes) -> None:
        """Raise PartitionLost if an entry that can be read now is not at its place, because its
        schema was not there when its key was written. A sweep writes the key."""
        indexes = self.store_partition.indexes
        if indexes is not None and self._get(self._head + fields + stored_key[1:]) is None:
            indexes.sweep_is_due = True
            raise PartitionLost(self.store_partition, "index-building")


def index_with_fields(view: View, names: str | None) -> DeclaredIndex | None:
    """The index of the view with these `field_names`."""
    return next((index for index in view.indexes if index.field_names == names), None)


def _fields(index: DeclaredIndex, view: View) -> IndexedFields:
    return _kept_fields(index, view, cast(Hashable, view.schemas))


@lru_cache(maxsize=64)
def _kept_fields(index: DeclaredIndex, view: View, _schemas: Hashable) -> IndexedFields:
    return IndexedFields(view, (index,))
