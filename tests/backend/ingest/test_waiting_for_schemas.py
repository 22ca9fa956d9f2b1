"""A partition that waits for a schema: nothing of it is skipped, and others are not held up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

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

SOURCE = ("t", 0)


class FakeLetters(DeadLetters):
    def __init__(self) -> None:
        super().__init__({}, 0)
        self.offsets: list[int] = []

    def send(self, view: Any, partition: int, letters: Any) -> None:
        self.offsets += [letter.record.offset() for letter in letters]


def test_what_waits_is_not_skipped_and_does_not_hold_up_others(tmp_path: Path) -> None:
    schemas = FakeSchemas(id7="int")
    framed_view = replace(
        view("v", topic="t", value="avro", value_schema="confluent", partitioner="none"),
        schemas=schemas,
    )
    views = (framed_view, view("other", topic="t", value="bytes", partitioner="none"))
    folder, registry, letters = (
        DataDirectory(tmp_path),
        PartitionRegistry(views),
        FakeLetters(),
    )
    for each in views:
        store, _ = folder.open(each.name, 0)
        store.initialise(0, metadata(each))
        registry.add(StorePartition(each, 0, store, Progress(0, 6, False), metadata(each), 0.0))
    fetcher = FakeFetcher()
    ingest = ingest_of(views, folder, registry, FakeWatcher(), fetcher, dead_letters=letters)
    waits, other = registry.get("v", 0), registry.get("other", 0)
    assert waits is not None
    assert other is not None
    log: list[Any] = [
        Rec(1, b"a", framed(7, "int", 1)),
        Rec(2, b"b", framed(8, "int", 2)),
        Rec(4, b"a", framed(7, "int", 3)),
    ]

    # the end of the log comes with the records
    ingest.applier.apply(Fetched({SOURCE: log}, {SOURCE: 6}))
    assert (waits.progress.position, waits.progress.answerable) == (2, False)
    assert waits.waiting_for is not None
    assert (other.progress.position, other.progress.answerable) == (6, True)
    ingest.assignments.update(*SOURCE)
    assert fetcher.reads_from == 6, "the other goes on from where it is"
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
    assert letters.offsets == [2]
    offsets = {key: decode_entry(stored).offset for key, stored in waits.store.scan(b"\1", b"\2")}
    assert offsets == {ENTRY + b"a": 4, ENTRY + b"c": 7}
    folder.close()
