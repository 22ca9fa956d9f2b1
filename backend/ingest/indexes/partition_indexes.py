"""The indexes of one store partition.

The keys of an index are written in the batch of the entries, without a look at the entries before.
So an update or a delete leaves a *stale* key, which names an entry with another value, or none. It
does no harm: a query compares each entry with its whole condition.

The store has two values about its indexes. `INDEXES_KEY`: the id and definition of each index,
whether it is complete, and how far a build has come. `INDEX_POSITION_KEY`: the position up to which
their keys were written. An older version moves the position and writes no keys, so if the two
differ, all indexes are built again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import orjson

from backend.ingest.protocols import Batch, Store
from model.indexes.encoding import MAX_ELEMENTS, MAX_ID, SIZE, UNREADABLE, key_head
from model.indexes.fields import Column, IndexedFields
from model.kinds.layout import ALL, after
from model.records import (
    ENTRY,
    INDEX,
    INDEX_POSITION_KEY,
    INDEXES_KEY,
    encode_number,
    is_tombstone,
)
from model.rows.row_view import Pair
from model.views import View

ALL_KEYS = INDEX, after(INDEX)
_MAX_KEYS = 50_000
"""Of indexes, in one batch."""
_RECENT = 10_000
"""Entries of whose keys the average is known."""
_SAMPLE, _SAMPLE_BYTES = 200, 1 << 18


class IndexedBatch:
    """A batch that keeps what is put into it until the keys of indexes are known. `written`: the
    values to write; each key has the last one, and none if it was deleted after it.

    `put(key, value)` is a C function: most records of a view with indexes pass it.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.written: dict[bytes, bytes] = {}
        self.put = self.written.__setitem__

    def delete(self, key: bytes) -> None:
        self.batch.delete(key)  # written before a later value of the key
        self.written.pop(key, None)


class PartitionIndexes:
    """Only the ingest thread may use it, except `ready`, `is_building`, `keys_each`, `note_look_up`
    and `sweep_is_due`.

    `ready`: the ids of the indexes that have all entries, by name; replaced, never modified.
    `reached`: the stored key up to which entries are in the indexes that are built (None: none
    yet). `built_entries`: their number. `puts`: the keys that were written since the last sweep
    began, without those of a build. `most_entries`: how many entries may have their keys in one
    batch. `sweep_from`: the key at which the sweep goes on (None: there is no sweep).
    `sweep_is_due`: whether a query has met an entry whose keys must be written again. `sweeps`,
    `swept`, `stale_met`: sweeps that have ended, the stale keys that they have deleted, and those
    that look-ups have met, since the store was opened.
    """

    def __init__(
        self,
        view: View,
        ids: Mapping[str, int],
        ready: Iterable[str],
        next_id: int,
        reached: bytes | None,
        built_entries: int = 0,
    ) -> None:
        self.view = view
        self.ids = dict(ids)
        self.ready = {name: ids[name] for name in ready}
        self.reached = reached
        self.built_entries = built_entries
        self.sweep_from: bytes | None = None
        self.sweep_is_due = False
        self.puts = 0
        self.valid = self.stale = 0  # entries that look-ups have read since the last sweep
        self.sweeps = self.swept = self.stale_met = 0
        self.fields = IndexedFields(view, view.indexes)
        most_keys = sum(1 if i.list_at is None else MAX_ELEMENTS for i in view.indexes)
        self.most_entries = _MAX_KEYS // most_keys
        self._lists = [index.name for index in view.indexes if index.list_at is not None]
        self._counted = dict.fromkeys(self._lists, (0.0, 0.0))  # keys, and their entries
        self._next_id = next_id
        self._heads = [(index.name, key_head(ids[index.name])) for index in view.indexes]

    @property
    def unready(self) -> list[str]:
        """The names of the indexes that are built."""
        return [name for name in self.ids if name not in self.ready]

    @property
    def is_building(self) -> bool:
        return len(self.ready) < len(self.ids)

    def keys_each(self, names: Iterable[str]) -> float:
        """The number of keys of an entry in these indexes: the average of the last ones."""
        counted = [self._counted.get(name, (1.0, 1.0)) for name in names]
        return sum([keys / entries if entries else 1.0 for keys, entries in counted])

    def sample(self, pairs: Sequence[Pair]) -> None:
        """Note how many keys these entries have."""
        if self._lists and pairs:
            columns = self.fields.read_to_write(pairs)
            for index, column in zip(self.view.indexes, columns, strict=True):
                self._count(index.name, column, len(pairs))

    def _count(self, name: str, column: Column, entries: int) -> None:
        if (counted := self._counted.get(name)) is not None:
            unreadable = column.fields.count(UNREADABLE)
            keys, known = counted
            part = 0.5 if known > _RECENT else 1.0
            self._counted[name] = (
                keys * part + len(column.fields) - unreadable,
                known * part + entries - unreadable,
            )

    def note_look_up(self, valid: int, stale: int) -> None:
        """Count the entries that a look-up has read, and keys that named none. Any thread may call
        it; a count that is lost does no harm."""
        self.valid += valid
        self.stale += stale
        self.stale_met += stale

    def begin_sweep(self) -> None:
        self.sweep_from = ALL_KEYS[0]
        self.sweep_is_due = False
        self.puts = self.valid = self.stale = 0

    def add(self, batch: Batch, pairs: Sequence[Pair], only_missing: bool = False) -> int:
        """Add the keys of entries, without tombstones, to a batch. `only_missing`: of the indexes
        that are built; raises SchemaNotYet. Returns their number."""
        if not pairs:
            return 0
        columns = self.fields.read_to_write(pairs, waits=only_missing)
        stored_keys = [stored_key[1:] for stored_key, _ in pairs]
        put = batch.put
        count = 0
        for (name, head), column in zip(self._heads, columns, strict=True):
            if only_missing and name in self.ready:
                continue
            length, size = -1, b""
            for fields, number in zip(column.fields, column.entries, strict=True):
                if len(fields) != length:  # most have the same
                    length = len(fields)
                    size = SIZE.pack(length)
                put(head + fields + stored_keys[number], size)
            count += len(column.fields)
            self._count(name, column, len(pairs))
        return count

    def add_entries(self, indexed: IndexedBatch) -> None:
        """Add what was put into a batch, and the keys of its entries."""
        put = indexed.batch.put
        for key, value in indexed.written.items():
            put(key, value)
        # `is_tombstone` inlined
        pairs = [
            pair for pair in indexed.written.items() if pair[0][:1] == ENTRY and pair[1][8] < 0xA0
        ]
        self.puts += self.add(indexed.batch, pairs)

    def built(self, batch: Batch, reached: bytes | None, entries: int) -> None:
        """Note in a batch how far the build has come; None: to the end. `entries`: the number of
        those that were added."""
        self.reached = reached
        self.built_entries = 0 if reached is None else self.built_entries + entries
        if reached is None:
            self.puts_document(batch, self.ids)
        else:
            self.puts_document(batch, self.ready)

    def use_built(self) -> None:
        """Let queries use all indexes, after the end of the build was written."""
        self.ready = dict(self.ids)

    def puts_document(self, batch: Batch, ready: Iterable[str]) -> None:
        """Put what the store has about its indexes into a batch."""
        known = set(ready)
        document = {
            "next": self._next_id,
            "reached": None if self.reached is None else self.reached.hex(),
            "built": self.built_entries,
            "indexes": {
                index.name: {
                    "id": self.ids[index.name],
                    "definition": index.definition,
                    "ready": index.name in known,
                }
                for index in self.view.indexes
            },
        }
        batch.put(INDEXES_KEY, orjson.dumps(document))


def note_position(batch: Batch, position: int) -> None:
    """Note in a batch that it has the keys of all its entries."""
    batch.put(INDEX_POSITION_KEY, encode_number(position))


def open_indexes(view: View, store: Store) -> PartitionIndexes | None:
    """The indexes of an open store that has a position, as the view declares them. New ones are
    empty, and keys of others are deleted. None if the view has none. Raises StoreError."""
    if view.is_custom:
        return None
    position = store.position or 0
    raw = store.get(INDEXES_KEY)
    if raw is None and not view.indexes:
        return None
    batch = store.new_batch()
    if not view.indexes:
        batch.delete_range(*ALL_KEYS)
        batch.delete(INDEXES_KEY)
        batch.delete(INDEX_POSITION_KEY)
        store.write(batch, position)
        return None
    document = None if raw is None else orjson.loads(raw)
    sample = list(first_entries(store.scan(*ALL), _SAMPLE, _SAMPLE_BYTES))
    is_empty = not sample
    is_current = store.get(INDEX_POSITION_KEY) == encode_number(position)
    indexes = _opened(view, document, is_current, is_empty)
    if document is None or indexes is None:
        batch.delete_range(*ALL_KEYS)
        indexes = indexes or _opened(view, None, is_current, is_empty)
        assert indexes is not None
    else:
        kept = set(indexes.ids.values())
        for stored in document["indexes"].values():
            if stored["id"] not in kept:
                batch.delete_range(key_head(stored["id"]), key_head(stored["id"] + 1))
    indexes.sample([pair for pair in sample if not is_tombstone(pair[1])])
    indexes.puts_document(batch, indexes.ready)
    note_position(batch, position)
    store.write(batch, position)
    return indexes


def first_entries(entries: Iterable[Pair], most: int, size: int) -> Iterator[Pair]:
    """The first `most` entries, up to the one that exceeds `size` bytes."""
    for pair in islice(entries, most):
        yield pair
        size -= len(pair[1])
        if size <= 0:
            return


def _opened(
    view: View, document: dict[str, Any] | None, is_current: bool, is_empty: bool
) -> PartitionIndexes | None:
    """The indexes, with the ids of those that the store has. None if there are no more ids."""
    stored = {} if document is None else document["indexes"]
    next_id = 1 if document is None else document["next"]
    ids: dict[str, int] = {}
    ready: list[str] = []
    for index in view.indexes:
        known = stored.get(index.name)
        if known is not None and index.has_keys_of(known["definition"]):
            ids[index.name] = known["id"]
        else:
            known = None
            ids[index.name] = next_id
            next_id += 1
        if is_empty or (is_current and known is not None and known["ready"]):
            ready.append(index.name)
    if next_id > MAX_ID:
        return None
    reached: str | None = None if document is None else document["reached"]
    unready = ids.keys() - set(ready)
    was_unready = {name for name, known in stored.items() if not known["ready"]}
    if not is_current or unready != was_unready:
        reached = None
    come_to = None if reached is None else bytes.fromhex(reached)
    # an older version does not write the number
    built = 0 if document is None or come_to is None else document.get("built", 0)
    return PartitionIndexes(view, ids, ready, next_id, come_to, built)
