"""What ingest stores of records that are not in the view's formats."""

from __future__ import annotations

import struct
import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from backend.ingest.batch import build_batch
from backend.ingest.lifecycle.recovery import open_partition
from backend.ingest.metadata.topic_metadata import TopicMetadata, rebuild_reason
from backend.storage.data_directory import DataDirectory
from model.records import (
    ENTRY,
    StoreMetadata,
    decode_entry,
    is_tombstone,
    is_unreadable,
    place,
    tombstone_entry,
    unplace,
    unreadable_entry,
)
from model.topology import Epoch, PlacedView, Topology
from model.views import SKIP, View
from model.views_file import parse_views
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.examples import ORDERS, metadata, view
from tests.support.in_process.fakes import Rec
from tests.support.in_process.instance import ME, OTHER
from tests.unit.backend.ingest.test_batch import DictBatch
from tests.unit.backend.ingest.test_verification import Process

TOPIC = TopicMetadata("topic-1", 1, {0: 0}, {0: 5}, None, 0.0, 0.0)


@pytest.mark.parametrize("offset", [0, 1, 2**31, 2**61 - 1])
def test_the_three_forms_of_an_entry_differ(offset: int) -> None:
    stored = unreadable_entry(-7, offset, b"{")
    # the offset plus 2**63, by the description of the format
    assert stored == struct.pack(">qQ", -7, offset + 2**63) + b"{"
    assert decode_entry(stored) == (-7, offset, b"{")
    assert (is_unreadable(stored), is_tombstone(stored)) == (True, False)
    tombstone = tombstone_entry(-7, offset)
    assert (is_unreadable(tombstone), is_tombstone(tombstone)) == (False, True)
    assert decode_entry(tombstone) == (-7, offset, None)
    partition, readable = unplace(place(stored, 3))
    assert (partition, readable) == (3, struct.pack(">qq", -7, offset) + b"{")


def test_it_takes_the_place_of_the_older_value() -> None:
    batch = DictBatch({ENTRY + b"a": b"old"})
    result = build_batch(batch, ORDERS, [Rec(4, b"a", b"{", 9), Rec(5, b"b", b"1")])
    assert batch[ENTRY + b"a"] == unreadable_entry(9, 4, b"{")
    assert result.keys == [b"a", b"b"]
    [letter] = result.dead_letters
    assert (letter.is_of_value, letter.is_stored) == (True, True)


def test_a_later_record_takes_its_place() -> None:
    batch = DictBatch()
    build_batch(batch, ORDERS, [Rec(4, b"a", b"{"), Rec(5, b"a", b"2"), Rec(6, b"b", b"{")])
    assert decode_entry(batch[ENTRY + b"a"]) == (7, 5, b"2")
    build_batch(batch, ORDERS, [Rec(7, b"b", None)])
    assert ENTRY + b"b" not in batch


def test_with_skip_the_previous_value_stays() -> None:
    batch = DictBatch({ENTRY + b"a": b"old"})
    skipping = replace(ORDERS, unreadable=SKIP)
    result = build_batch(batch, skipping, [Rec(4, b"a", b"{")])
    assert batch == {ENTRY + b"a": b"old"}
    [letter] = result.dead_letters
    assert (letter.is_of_value, letter.is_stored) == (True, False)


def test_skip_is_in_the_definition_of_a_view() -> None:
    entry = '[views.orders]\ntopic = "orders"\nkey = "string"\nvalue = "json"\n'
    [plain] = parse_views(entry).views
    [skipping] = parse_views(f'{entry}unreadable = "skip"\n').views
    assert (plain.keeps_unreadable, skipping.keeps_unreadable) == (True, False)
    assert plain.hash != skipping.hash, "the entries differ"
    assert skipping.description()["unreadable"] == "skip"
    assert "unreadable" not in plain.description()


def test_a_record_with_an_unreadable_key_is_not_stored() -> None:
    batch = DictBatch()
    result = build_batch(batch, view(key="int32"), [Rec(0, b"x", b"1"), Rec(1, None, b"1")])
    assert not batch
    assert [(each.is_of_value, each.is_stored) for each in result.dead_letters] == [
        (False, False), (False, False),
    ]  # fmt: skip


@pytest.mark.parametrize("store", ["key-value", "versioned"])
def test_a_run_stops_at_a_missing_schema_behind_unreadable_records(store: str) -> None:
    schemas = FakeSchemas(id3=None)
    of = replace(
        view(value="avro", value_schema="confluent"), store=store, schemas=schemas, retention=1000
    )
    records = [
        Rec(5, b"a", b"no frame"), Rec(6, b"\xff", b""), Rec(7, b"b", framed(9, "int", 1)),
    ]  # fmt: skip
    result = build_batch(DictBatch(), of, records)
    assert result.missing_schema is not None
    assert result.stopped_at == 2


OLD_FIELDS = {
    "view_hash", "topic_id", "partitions", "leader_epoch", "answerable", "mis_partitioned",
    "dead_letters", "alive_at", "push", "earlier_counts", "complete_at",
}  # fmt: skip
"""Those that the version before knows; it refuses a store with any other."""


def test_an_older_version_refuses_a_store_with_unreadable_entries() -> None:
    plain = orjson.loads(metadata().encode())
    assert plain.keys() <= OLD_FIELDS
    marked = metadata(dead_letters=1, unreadable_values=1)
    assert not orjson.loads(marked.encode()).keys() <= OLD_FIELDS
    assert StoreMetadata.decode(marked.encode()) == marked


def test_the_store_of_an_older_version_is_rebuilt_if_it_has_skipped_records() -> None:
    def reason(of: StoreMetadata, by: object = ORDERS) -> str | None:
        return rebuild_reason(by, 0, 5, of, TOPIC, 0)  # type: ignore[arg-type]

    skipped = metadata(dead_letters=2)
    assert "older version" in str(reason(skipped))
    assert reason(metadata()) is None
    assert reason(metadata(dead_letters=2, unreadable_values=1, unreadable_keys=1)) is None
    skipping = replace(ORDERS, unreadable=SKIP)
    assert reason(replace(skipped, view_hash=skipping.hash), skipping) is None


RETENTION = 86_400_000


@pytest.mark.parametrize(
    ("start", "delete_retention", "partitions", "of", "stored", "in_several", "rebuilt"),
    [
        (0, RETENTION, 1, ORDERS, {}, False, True),
        (0, None, 1, ORDERS, {}, True, True),
        (0, None, 2, ORDERS, {"mispartitioned": 1}, False, True),
        (1, None, 1, ORDERS, {}, False, False),
        (1, RETENTION, 1, ORDERS, {}, False, False),
        (0, RETENTION, 1, ORDERS, {}, True, False),
        (0, RETENTION, 1, view(partitioner="none"), {}, False, False),
        (0, RETENTION, 1, ORDERS, {"mispartitioned": 1}, False, False),
        (0, RETENTION, 2, ORDERS, {}, False, False),
        (0, RETENTION, 2, ORDERS, {"partitions": 2, "earlier_counts": (1,)}, False, False),
        (0, RETENTION, 1, view(store="versioned", retention="1d"), {}, False, False),
    ],
    ids=[
        "compacted", "all records, in several", "all records, more partitions", "rows were deleted",
        "compacted and deleted", "in several", "in any partition", "mispartitioned",
        "partitions were added", "partitions were added before", "older versions",
    ],
)  # fmt: skip
def test_a_store_stays_if_its_topic_may_lack_what_it_was_made_of(
    tmp_path: Path,
    start: int,
    delete_retention: int | None,
    partitions: int,
    of: View,
    stored: dict[str, object],
    in_several: bool,
    rebuilt: bool,
) -> None:
    """Regression: after an upgrade, deleted keys came back, and rows were lost."""
    folder = DataDirectory(tmp_path)
    store, _ = folder.open(of.name, 0)
    now_ms = time.time_ns() // 1_000_000
    written = metadata(of, dead_letters=1, alive_at=now_ms, **stored)
    store.write(store.new_batch(), 4, written)
    store.close()
    found = TopicMetadata("topic-1", partitions, {0: start}, {0: 5}, delete_retention, 0.0)
    opened, reason = open_partition(folder, of, 0, found, 10, in_several=in_several)
    opened.close(0)
    folder.close()
    assert ("older version" in str(reason)) == rebuilt
    assert (opened.progress.position == 4) != rebuilt


@pytest.mark.parametrize("mispartitioned", [False, True])
def test_a_store_stays_if_another_instance_has_stray_records(
    tmp_path: Path, mispartitioned: bool
) -> None:
    of = view("v", topic="t")
    process = Process(tmp_path, 5, views=[of], retention=RETENTION)
    placed = PlacedView(of.description(), of.hash, (0,), mispartitioned=mispartitioned)
    process.registry.apply_topology(Topology(Epoch(5, 1), (ME, OTHER), {"v": placed}))
    opened = process.opened()
    opened.metadata = replace(opened.metadata, dead_letters=1)
    opened.store.write(opened.store.new_batch(), 4, opened.metadata)
    process.ingest.lifecycle.close(opened)
    process.watcher.set(5)
    process.turn()
    assert process.opened() is not opened
    assert process.ingest.loop.rebuilds == (0 if mispartitioned else 1)
    process.close()


def test_a_store_that_was_opened_again_has_its_counts(tmp_path: Path) -> None:
    folder = DataDirectory(tmp_path)
    opened, _ = open_partition(folder, ORDERS, 0, TOPIC, 0)
    batch = opened.store.new_batch()
    build_batch(batch, ORDERS, [Rec(0, b"a", b"{")])
    counted = replace(opened.metadata, dead_letters=1, unreadable_values=1)
    opened.store.write(batch, 1, counted)
    opened.close(0)
    again, reason = open_partition(folder, ORDERS, 0, TOPIC, 0)
    assert reason is None
    assert again.metadata.unreadable_values == 1
    assert again.store.get(ENTRY + b"a") == unreadable_entry(7, 0, b"{")
    again.close(0)
    folder.close()
