"""The entries of one partition in the order of an index.

Rows are ordered by their *place*: the bytes of the index's fields, then the stored key. A stale key
of the index names a place that the entry has left, so it is skipped. All rows of a response are as
they were when it began: otherwise one that changes its place meanwhile could be missed.

If a field of the index is a list, the condition names the element that it contains. An entry whose
list has too many elements has the place that it would have with a key for this element.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache, partial
from heapq import merge
from itertools import chain, islice
from typing import NamedTuple, cast

from backend.ingest.store_partitions import StorePartition
from backend.queries.filters.condition import Condition
from backend.queries.filters.index_plan import Order, order_in
from backend.queries.scans.partition_run import PartitionLost, PartitionRun, guarded
from backend.wire.scan import Query
from model.indexes.declaration import DeclaredIndex
from model.indexes.encoding import (
    MANY,
    UNREADABLE,
    UNREADABLE_FIELDS,
    Bounds,
    fields_of_key,
    key_head,
    stored_key_of,
)
from model.indexes.fields import IndexedFields
from model.kinds.layout import after
from model.records import ENTRY, is_tombstone
from model.rows.row_view import Pair
from model.views import View


class _Place(NamedTuple):
    """A place that a key of the index names. `at`: its bytes, which begin as stored keys do."""

    at: bytes
    fields: bytes
    stored_key: bytes


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
        self._order = order_in(index, condition)
        bounds = self._rest(self._order.bounds, after_place)
        ranges = [self._rest(UNREADABLE_FIELDS, after_place), bounds]
        if self._order.element is not None:
            ranges.append(_without_element(self._order, self._order.element, bounds))
        absolute = [(self._head + low, self._head + max(low, high)) for low, high in ranges]
        begin = partial(store_partition.store.at_one_moment, absolute, self._backwards)
        self._get, (unreadable, *scans) = guarded(store_partition, begin)
        readable = merge(*map(self._named, scans), reverse=self._backwards)
        parts = [readable, self._named(unreadable)]
        # a stale key may name a place, too: merging gives rows of one place once
        self._places = chain(*(parts[::-1] if self._backwards else parts))

    def _rest(self, bounds: Bounds, after_place: bytes | None) -> Bounds:
        """The bounds of places, without their first byte."""
        low, high = bounds
        if after_place is not None and self._backwards:
            high = min(high, after_place[1:])
        elif after_place is not None:
            low = max(low, after_place[1:] + b"\0")
        return Bounds(low, high)

    def _named(self, index_keys: Iterable[Pair]) -> Iterator[_Place]:
        for index_key, size in index_keys:
            fields = _with_element(self._order, fields_of_key(index_key, size))
            stored_key = stored_key_of(index_key, size)
            yield _Place(ENTRY + fields + stored_key[1:], fields, stored_key)

    def read(self, count: int) -> list[Pair]:
        return guarded(self.store_partition, lambda: self._read(count))

    def _read(self, count: int) -> list[Pair]:
        places = list(islice(self._places, count))
        self.ended = len(places) < count
        if places:
            self.reached = places[-1].at
        named: list[_Place] = []
        entries: list[Pair] = []
        within = 0
        for place in places:
            if self._low <= place.stored_key < self._high:
                within += 1
                entry = self._get(place.stored_key)
                if entry is not None and not is_tombstone(entry):
                    named.append(place)
                    entries.append((place.stored_key, entry))
        self.got, self.got_bytes = len(places), sum([len(entry) for _, entry in entries])
        if not entries:
            self._note(0, within)
            return []
        [column] = self._fields.read(entries)
        own = {
            (_with_element(self._order, fields), number)
            for fields, number in zip(*column, strict=True)
        }
        valid = []
        at = {}
        for number, place in enumerate(named):
            if (place.fields, number) in own:
                valid.append(entries[number])
                at[place.stored_key] = place.at
            elif place.fields == UNREADABLE:
                self._check_keys(entries[number])
        self._note(len(valid), within - len(valid))
        pairs = self._kept(valid)
        if self._condition is not None:
            pairs = self._condition.kept(pairs)
        placed = []
        for stored_key, entry in pairs:
            self._stored_keys[at[stored_key]] = stored_key
            placed.append((at[stored_key], entry))
        return placed

    def _note(self, valid: int, stale: int) -> None:
        if (indexes := self.store_partition.indexes) is not None:
            indexes.note_look_up(valid, stale)

    def _check_keys(self, entry: Pair) -> None:
        """Raise PartitionLost if an entry that can be read now is not at its place, because its
        schema was not there when its keys were written. A sweep writes the keys."""
        indexes = self.store_partition.indexes
        [column] = self._fields.read([entry])
        keys = [self._head + fields + entry[0][1:] for fields in column.fields]
        if indexes is not None and any(self._get(key) is None for key in keys):
            indexes.sweep_is_due = True
            raise PartitionLost(self.store_partition, "index-building")


def _with_element(order: Order, fields: bytes) -> bytes:
    """The fields as they would be if the list had a key for the element that it contains."""
    before, element = order.before, order.element
    if element is None or not fields.startswith(before + MANY):
        return fields
    return before + element + fields[len(before) + len(MANY) :]


def _without_element(order: Order, element: bytes, bounds: Bounds) -> Bounds:
    """The bounds of entries whose lists have too many elements, for those of an element."""
    prefix = order.before + element

    def moved(bound: bytes) -> bytes:
        if bound.startswith(prefix):
            return order.before + MANY + bound[len(prefix) :]
        return order.before + (MANY if bound < prefix else after(MANY))

    return Bounds(moved(bounds.low), moved(bounds.high))


def index_with_fields(view: View, names: str | None) -> DeclaredIndex | None:
    """The index of the view with these `field_names`."""
    return next((index for index in view.indexes if index.field_names == names), None)


def _fields(index: DeclaredIndex, view: View) -> IndexedFields:
    return _kept_fields(index, view, cast(Hashable, view.schemas))


@lru_cache(maxsize=64)
def _kept_fields(index: DeclaredIndex, view: View, _schemas: Hashable) -> IndexedFields:
    return IndexedFields(view, (index,))
