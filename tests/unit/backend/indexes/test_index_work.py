"""Indexes are built, swept and kept complete, whatever happens in between."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.indexes import work
from backend.ingest.indexes.partition_indexes import ALL_KEYS, open_indexes
from backend.ingest.indexes.work import IndexWork, next_work
from backend.ingest.read_priority import ReadPriority
from backend.ingest.store_partitions import StorePartition
from backend.ingest.writer import PartitionWriter
from backend.storage.data_directory import DataDirectory
from model.indexes.declaration import DeclaredIndex, parse_indexes
from model.indexes.encoding import MANY, MAX_ELEMENTS, SIZE, key_head
from model.indexes.fields import MAX_BYTES, IndexedFields
from model.kinds.layout import ALL
from model.machine.clock import boot_time
from model.progress import Progress
from model.records import INDEXES_KEY, is_tombstone
from model.rows.declared_fields import parse_declared_fields
from model.views import View
from tests.support.in_process.examples import ORDERS, metadata
from tests.support.in_process.fakes import Rec
from tests.unit.backend.unreadable.applied import apply

FIELDS = parse_declared_fields({"dest": "string?", "delay": "int?", "tags": "strings?"})
BY_DEST, BY_DELAY, BY_BOTH, BY_TAGS = parse_indexes(
    {
        "by-dest": ["dest"],
        "by-delay": ["delay"],
        "by-both": ["delay", "dest"],
        "by-tags": ["tags", "dest"],
    },
    FIELDS,
)


TOO_MANY = [f"t{number}" for number in range(MAX_ELEMENTS + 1)]


class Partition:
    """A store partition that is closed and opened again with other indexes."""

    def __init__(self, folder: Path, of: View = ORDERS) -> None:
        self.folder = DataDirectory(folder)
        self.view = of
        self.offset = 0
        self.opened: StorePartition
        self.work = IndexWork(PartitionWriter(lambda: None), ReadPriority(lambda: 0))

    def open(self, *indexes: DeclaredIndex, fields: Any = FIELDS) -> StorePartition:
        """Opens it as the current version does, after it was closed or the process was killed."""
        if hasattr(self, "opened"):
            self.opened.store.close()
        view: View = replace(self.view, fields=fields, indexes=indexes)
        store, _ = self.folder.open(view.name, 0)
        if store.position is None:
            store.initialise(0, metadata(view))
        assert store.metadata is not None
        progress = Progress(store.position or 0, 0, answerable=True)
        self.opened = StorePartition(view, 0, store, progress, store.metadata, boot_time())
        self.opened.indexes = open_indexes(view, store)
        return self.opened

    def put(self, key: str, row: Any) -> None:
        self.put_bytes(key, None if row is None else json.dumps(row).encode())

    def put_bytes(self, key: str, value: bytes | None) -> None:
        apply(self.opened, [Rec(self.offset, key.encode(), value, 7)])
        self.offset += 1

    def put_all(self, rows: dict[str, Any]) -> None:
        """Puts rows in one batch."""
        records = []
        for key, row in rows.items():
            records.append(Rec(self.offset, key.encode(), json.dumps(row).encode(), 7))
            self.offset += 1
        apply(self.opened, records)

    def put_by_older_version(self, key: str, row: Any) -> None:
        """An older version knows no indexes."""
        indexes, self.opened.indexes = self.opened.indexes, None
        self.put(key, row)
        self.opened.indexes = indexes

    def finish(self) -> None:
        """Does all work that is left."""
        self.work.run(self.opened, time.monotonic() + 30)
        assert next_work(self.opened) is None

    def keys(self) -> set[bytes]:
        return {key for key, _ in self.opened.store.scan(*ALL_KEYS)}

    def expected(self, names: Sequence[str] | None = None) -> set[bytes]:
        """The keys that the entries should have in the indexes."""
        view, indexes = self.opened.view, self.opened.indexes
        assert indexes is not None
        entries = [pair for pair in self.opened.store.scan(*ALL) if not is_tombstone(pair[1])]
        if not entries:
            return set()
        columns = IndexedFields(view, view.indexes).read_to_write(entries)
        return {
            key_head(indexes.ids[index.name]) + fields + entries[number][0][1:]
            for index, column in zip(view.indexes, columns, strict=True)
            for fields, number in zip(*column, strict=True)
            if names is None or index.name in names
        }

    def check(self) -> None:
        """No index that queries use lacks an entry."""
        indexes = self.opened.indexes
        if indexes is None:
            assert self.keys() == set()
            assert self.opened.store.get(INDEXES_KEY) is None
        else:
            assert self.expected(list(indexes.ready)) <= self.keys()


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    made = Partition(tmp_path)
    yield made
    made.opened.store.close()
    made.folder.close()


def ready(of: Partition) -> set[str]:
    assert of.opened.indexes is not None
    return set(of.opened.indexes.ready)


def test_an_index_of_a_new_store_is_complete(partition: Partition) -> None:
    partition.open(BY_DEST, BY_BOTH)
    assert ready(partition) == {"by-dest", "by-both"}
    partition.put("k1", {"dest": "ATL", "delay": 3})
    partition.put("k2", {"dest": 7})
    assert partition.keys() == partition.expected()
    assert len(partition.keys()) == 4


def test_an_added_index_is_built_and_can_be_used_then(partition: Partition) -> None:
    partition.open()
    for number in range(1200):
        partition.put(f"k{number}", {"dest": f"D{number % 7}", "delay": number})
    partition.put("k3", None)
    partition.open(BY_DEST)
    assert ready(partition) == set()
    partition.put("k1", {"dest": "NEW"})  # while it is built
    partition.finish()
    assert ready(partition) == {"by-dest"}
    partition.check()
    partition.open(BY_DEST)
    assert ready(partition) == {"by-dest"}


def test_a_build_goes_on_where_it_was(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition.open()
    for number in range(50):
        partition.put(f"k{number:02}", {"dest": "ATL"})
    monkeypatch.setattr(work, "_SLICE", 10)
    partition.open(BY_DEST)
    for _ in range(2):
        assert partition.opened.indexes is not None
        partition.work._build(partition.opened, partition.opened.indexes)
    partition.open(BY_DEST)
    assert partition.opened.indexes is not None
    assert partition.opened.indexes.reached == b"\x01k19"
    assert ready(partition) == set()
    partition.finish()
    assert partition.keys() == partition.expected()


def test_what_an_older_version_wrote_is_indexed(partition: Partition) -> None:
    """Trap: after a downgrade and an upgrade, entries of the older version have no index keys."""
    partition.open(BY_DEST)
    partition.put("k1", {"dest": "ATL"})
    partition.put_by_older_version("k2", {"dest": "ATL"})
    partition.open(BY_DEST)
    assert ready(partition) == set()
    partition.finish()
    partition.check()
    assert len(partition.keys()) == 2


def test_an_index_with_another_definition_is_another_one(partition: Partition) -> None:
    partition.open(BY_DEST, BY_DELAY)
    for number in range(5):
        partition.put(f"k{number}", {"dest": "ATL", "delay": number})
    as_text = parse_declared_fields({"dest": "string?", "delay": "string?"})
    [changed] = parse_indexes({"by-delay": ["delay"]}, as_text)
    partition.open(BY_DEST, changed, fields=as_text)
    assert ready(partition) == {"by-dest"}
    partition.finish()
    assert partition.keys() == partition.expected()


def test_a_removed_index_leaves_nothing(partition: Partition) -> None:
    partition.open(BY_DEST, BY_DELAY)
    partition.put("k1", {"dest": "ATL", "delay": 1})
    partition.open(BY_DELAY)
    assert partition.keys() == partition.expected()
    assert ready(partition) == {"by-delay"}
    partition.open()
    partition.check()
    partition.put("k2", {"dest": "ATL"})
    partition.open(BY_DEST)
    assert ready(partition) == set()


def test_a_sweep_deletes_stale_keys_alone(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_FEW", 10)
    partition.open(BY_DEST, BY_BOTH)
    for change in range(3):
        partition.put_all({f"k{n}": {"dest": f"D{change}", "delay": n} for n in range(20)})
    partition.put("k7", None)
    assert len(partition.keys() - partition.expected()) == 2 * (2 * 20 + 1)
    partition.finish()
    assert partition.keys() == partition.expected()


def test_look_ups_that_meet_stale_keys_cause_a_sweep(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_FEW", 10)
    opened = partition.open(BY_DEST)
    assert opened.indexes is not None
    opened.indexes.note_look_up(valid=10, stale=10)
    assert next_work(opened) is None
    opened.indexes.note_look_up(valid=0, stale=1)
    assert next_work(opened) is not None
    partition.finish()
    assert opened.indexes.stale == 0


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 20))]
)
def test_no_index_that_is_used_lacks_an_entry(
    partition: Partition, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, builds, sweeps, restarts with other indexes, and older versions, in any order."""
    monkeypatch.setattr(work, "_SLICE", 5)
    monkeypatch.setattr(work, "_FEW", 20)
    chance = random.Random(seed)
    choices = [
        (),
        (BY_DEST,),
        (BY_DEST, BY_DELAY),
        (BY_BOTH,),
        (BY_DELAY, BY_BOTH),
        (BY_TAGS,),
        (BY_TAGS, BY_DELAY),
    ]
    partition.open(*chance.choice(choices))
    for _ in range(300):
        action = chance.random()
        key, row = f"k{chance.randrange(30)}", {"dest": chance.choice("AB"), "delay": 1}
        row["delay"] = chance.randrange(3)
        row["tags"] = chance.choice([None, [], ["a"], ["b", "a", "b"], ["a", "c"], TOO_MANY])
        if action < 0.6:
            partition.put(key, row if chance.random() < 0.9 else None)
        elif action < 0.9:
            indexes = next_work(partition.opened)
            if indexes is not None and indexes.is_building:
                partition.work._build(partition.opened, indexes)
            elif indexes is not None:
                partition.work._sweep(partition.opened, indexes)
        elif action < 0.93:
            partition.open(*chance.choice(choices))
        elif action < 0.96:
            partition.open(*partition.opened.view.indexes)
        else:
            partition.put_by_older_version(key, row)
            partition.open(*chance.choice(choices))
        partition.check()
    partition.open(*partition.opened.view.indexes)
    partition.finish()
    partition.check()


def test_sizes_say_where_stored_keys_begin(partition: Partition) -> None:
    opened = partition.open(BY_BOTH)
    partition.put("k1", {"dest": "ATL", "delay": 1})
    [(key, size)] = list(opened.store.scan(*ALL_KEYS))
    assert key[3 + SIZE.unpack(size)[0] :] == b"k1"


def test_another_encoding_is_built_again_and_not_used_before(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition.open(BY_DEST)
    partition.put_all({"a": {"dest": "ATL"}, "b": {"dest": "JFK"}})
    stored = partition.opened.store.get(INDEXES_KEY)
    assert stored is not None
    # as before there was a version, so these stores are not built again
    assert json.loads(stored)["indexes"]["by-dest"]["definition"] == [["dest", "string?"]]
    partition.open(BY_DEST)
    assert ready(partition) == {"by-dest"}
    old = partition.keys()
    for version in (2, 3, 1):  # upgrades, and a downgrade
        monkeypatch.setattr("model.indexes.declaration.ENCODING", version)
        partition.open(BY_DEST)
        assert ready(partition) == set()
        assert partition.keys() == set(), "nothing of the other encoding is left"
        partition.finish()
        assert ready(partition) == {"by-dest"}
        partition.open(BY_DEST)
        assert ready(partition) == {"by-dest"}
        assert partition.keys() == partition.expected() != old


def test_a_field_that_may_be_null_has_the_same_keys(partition: Partition) -> None:
    """So an index stays when a schema declares its field instead of the table."""
    partition.open(BY_BOTH)
    partition.put_all({"a": {"dest": "ATL", "delay": 1}, "b": {"dest": None}})
    keys = partition.keys()
    fields = parse_declared_fields({"dest": "string", "delay": "int"})
    [never_null] = parse_indexes({"by-both": ["delay", "dest"]}, fields)
    opened = partition.open(never_null, fields=fields)
    assert ready(partition) == {"by-both"}
    assert partition.keys() == keys == partition.expected()
    stored = opened.store.get(INDEXES_KEY)
    assert stored is not None
    assert json.loads(stored)["indexes"]["by-both"]["definition"] == never_null.definition


def test_an_order_of_another_encoding_is_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in cursors, and in requests to instances of the other version."""
    assert BY_BOTH.field_names == '[["delay"],["dest"]]'
    monkeypatch.setattr("model.indexes.declaration.ENCODING", 2)
    assert BY_BOTH.field_names == '[["delay"],["dest"],2]'


def test_the_progress_of_a_build_survives_a_restart(partition: Partition) -> None:
    partition.open()
    partition.put_all({f"k{number:03}": {"dest": "ATL"} for number in range(700)})
    opened = partition.open(BY_DEST)
    assert opened.indexes is not None
    assert (opened.indexes.is_building, opened.indexes.built_entries) == (True, 0)
    assert 700 <= opened.entries() < 710, "also without the keys of the index"
    partition.work._build(opened, opened.indexes)
    assert opened.indexes.built_entries == 500
    assert 700 <= opened.entries() < 710
    again = partition.open(BY_DEST).indexes
    assert again is not None
    assert again.built_entries == 500
    changed = partition.open(BY_DEST, BY_DELAY).indexes
    assert changed is not None
    assert changed.built_entries == 0, "the build begins again"
    partition.finish()
    assert changed.built_entries == 0


def test_an_entry_has_a_key_for_each_element(partition: Partition) -> None:
    opened = partition.open(BY_TAGS)
    partition.put("k1", {"tags": ["a", "b", "a"], "dest": "ATL"})
    head = key_head(1)
    assert partition.keys() == {head + b"\x01%b\x00\x00\x01ATL\x00\x00k1" % t for t in (b"a", b"b")}
    for row, fields in (
        ({"tags": [], "dest": "ATL"}, b"\x00\x01ATL\x00\x00"),
        ({"tags": TOO_MANY}, MANY + b"\x00"),
        ({"tags": ["a", None]}, b"\x00\x00"),
    ):
        partition.put("k1", row)
        assert partition.expected() == {head + fields + b"k1"}
    assert opened.indexes is not None
    opened.indexes.begin_sweep()
    partition.finish()
    assert partition.keys() == partition.expected() == {head + b"\x00\x00k1"}


def test_the_number_of_entries_is_known_though_they_have_many_keys(partition: Partition) -> None:
    """It is an estimate: of the entries that a scan would read, and of a count."""
    partition.open()
    rows = {f"k{n:03}": {"tags": [f"t{n}", "a", "b"], "dest": "ATL"} for n in range(900)}
    partition.put_all(rows)
    for indexes in ((BY_TAGS,), (BY_TAGS, BY_DEST), (BY_TAGS, BY_DEST)):
        opened = partition.open(*indexes)
        assert 900 <= opened.entries() < 910
        if opened.indexes is not None and opened.indexes.is_building:
            partition.work._build(opened, opened.indexes)
            assert 900 <= opened.entries() < 910
            partition.finish()
            assert 900 <= opened.entries() < 910
    partition.put_all({f"l{n:03}": {"tags": [*"abcdefg"]} for n in range(900)})
    assert 1_500 < partition.opened.entries() < 2_100


def test_the_keys_of_an_entry_are_bounded(partition: Partition) -> None:
    """A long value next to a list would be in each of a hundred keys."""
    partition.open(BY_TAGS)
    for size, count in ((10, 100), (MAX_BYTES // 100, 1), (1_000, 1)):
        tags = TOO_MANY[1:]
        partition.put("k1", {"tags": tags, "dest": "x" * size})
        assert len(partition.expected()) == count
        assert sum(map(len, partition.expected())) < MAX_BYTES + 1_000
    partition.put("k" * MAX_BYTES, {"tags": ["a", "b"]})
    assert len(partition.expected()) == 2
    partition.put("k" * MAX_BYTES, {"tags": ["a"]})
    assert len(partition.expected()) == 2


def test_a_sweep_is_due_when_half_of_the_entries_are_updated(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when half as many keys are: an entry with a list has many."""
    monkeypatch.setattr(work, "_FEW", 1)
    monkeypatch.setattr(StorePartition, "entries", lambda _: 10)
    opened = partition.open(BY_TAGS, BY_DEST)
    row = {"tags": ["a", "b", "c", "d"], "dest": "ATL"}
    partition.put_all({f"k{number}": row for number in range(10)})
    assert opened.indexes is not None
    opened.indexes.begin_sweep()
    partition.finish()
    partition.put_all({f"k{number}": row for number in range(5)})
    assert next_work(opened) is None
    partition.put("k7", row)
    assert next_work(opened) is not None
