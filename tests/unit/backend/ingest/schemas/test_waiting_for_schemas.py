"""Tests of a store partition that waits for a schema: no record is skipped, no other one waits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.consumer import Fetched
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.storage.data_directory import DataDirectory
from model.progress import Progress
from model.records import ENTRY, decode_entry
from tests.support.in_process.avro_examples import FakeSchemas, framed
from tests.support.in_process.examples import metadata, view
from tests.support.in_process.fakes import FakeFetcher, FakeWatcher, Rec
from tests.support.in_process.ingest import ingest_of

pytestmark = pytest.mark.usefixtures("batches")

SOURCE = ("t", 0)


class FakeDeadLetters(DeadLetters):
    def __init__(self) -> None:
        super().__init__({}, 0)
        self.offsets: list[int] = []

    def send(self, view: Any, partition: int, dead_letters: Any) -> None:
        self.offsets += [letter.record.offset() for letter in dead_letters]


def test_a_waiting_store_partition_skips_no_record_and_delays_no_other(
    tmp_path: Path,
) -> None:
    schemas = FakeSchemas(id7="int")
    framed_view = replace(
        view("v", topic="t", value="avro", value_schema="confluent", partitioner="none"),
        schemas=schemas,
    )
    views = (framed_view, view("other", topic="t", value="bytes", partitioner="none"))
    folder, registry = DataDirectory(tmp_path), PartitionRegistry(views)
    dead_letters = FakeDeadLetters()
    for of in views:
        store, _ = folder.open(of.name, 0)
        store.initialise(0, metadata(of))
        registry.add(StorePartition(of, 0, store, Progress(0, 6, False), metadata(of), 0.0))
    fetcher = FakeFetcher()
    ingest = ingest_of(views, folder, registry, FakeWatcher(), fetcher, dead_letters=dead_letters)
    waits, other = registry.get("v", 0), registry.get("other", 0)
    assert waits is not None
    assert other is not None
    log: list[Any] = [
        Rec(1, b"a", framed(7, "int", 1)),
        Rec(2, b"b", framed(8, "int", 2)),
        Rec(4, b"a", framed(7, "int", 3)),
    ]

    # the fetch has records and the end of the log
    ingest.applier.apply(Fetched({SOURCE: log}, {SOURCE: 6}))
    assert (waits.progress.position, waits.progress.answerable) == (2, False)
    assert waits.waiting_for is not None
    assert (other.progress.position, other.progress.answerable) == (6, True)
    ingest.assignments.update(*SOURCE)
    assert fetcher.reads_from == 6, "the other one continues from its position"
    ingest.applier.apply(Fetched({SOURCE: [Rec(7, b"c", framed(7, "int", 4))]}, {SOURCE: 8}))
    assert (waits.progress.position, other.progress.position) == (2, 8)
    assert registry.resume() == []

    schemas.by_id[8] = None
    assert registry.resume() == [waits]
    ingest.assignments.update(*SOURCE)
    assert fetcher.reads_from == 2
    ingest.applier.apply(
        Fetched({SOURCE: [*log[1:], Rec(7, b"c", framed(7, "int", 4))]}, {SOURCE: 8})
    )
    assert (waits.progress.position, waits.progress.answerable) == (8, True)
    assert dead_letters.offsets == [2]
    offsets = {key: decode_entry(stored).offset for key, stored in waits.store.scan(b"\1", b"\2")}
    # the schema of record 2 does not exist
    assert offsets == {ENTRY + b"a": 4, ENTRY + b"b": 2, ENTRY + b"c": 7}
    folder.close()
