"""A batch with the keys of indexes writes what the batch alone would write."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from backend.ingest.indexes.partition_indexes import IndexedBatch, PartitionIndexes
from model.records import ENTRY, EXPIRY, INDEX, entry_head, is_tombstone, tombstone_entry
from tests.support.in_process.examples import ORDERS
from tests.unit.backend.indexes.test_index_work import BY_DEST, FIELDS

_VIEW = replace(ORDERS, fields=FIELDS, indexes=(BY_DEST,))
_KEYS = st.sampled_from([ENTRY + b"a", ENTRY + b"b", EXPIRY + b"a", EXPIRY + b"b"])
_ATL, _NONE = entry_head(7, 1) + b'{"dest":"ATL"}', entry_head(8, 2) + b'{"dest":null}'
_VALUES = st.sampled_from([None, _ATL, _NONE, tombstone_entry(9, 3)])


class Written:
    """What a store has after a batch: changes apply in the order in which they were added."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes) -> None:
        self.entries[key] = value

    def delete(self, key: bytes) -> None:
        self.entries.pop(key, None)

    def delete_range(self, begin: bytes, end: bytes) -> None:
        raise NotImplementedError


@given(st.lists(st.tuples(_KEYS, _VALUES), max_size=12))
def test_the_last_change_of_a_key_counts(changes: list[tuple[bytes, bytes | None]]) -> None:
    plain, below = Written(), Written()
    indexed = IndexedBatch(below)
    for batch in (plain, indexed):
        for key, value in changes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, b"" if key[:1] == EXPIRY else value)
    indexes = PartitionIndexes(_VIEW, {"by-dest": 1}, ["by-dest"], 2, None)
    indexes.add_entries(indexed)
    kept = {key: value for key, value in below.entries.items() if key[:1] != INDEX}
    assert kept == plain.entries
    entries = {key: value for key, value in kept.items() if key[:1] == ENTRY}
    assert below.entries.keys() - kept.keys() == {
        b"\x03\x00\x01" + (b"\x01ATL\x00\x00" if value == _ATL else b"\x00") + key[1:]
        for key, value in entries.items()
        if not is_tombstone(value)
    }
    assert indexes.puts == len(below.entries) - len(kept)
