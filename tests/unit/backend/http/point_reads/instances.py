"""Instances whose answers to coalesced reads are compared with those to single ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from backend.ingest.store_partitions import StorePartition
from backend.storage.data_directory import DataDirectory
from backend.wire.answer import Answer
from model.machine.clock import boot_time
from model.partitioner import partition_of
from model.views import View
from tests.support.in_process.instance import Instance

PARTITIONS = 3
place = partition_of("murmur2")


@contextmanager
def holding(
    folder: Path, of: View, entries: dict[bytes, bytes], partitions: int = PARTITIONS
) -> Iterator[Instance]:
    """An instance with all partitions of the view, caught up."""
    data = DataDirectory(folder)
    instance = Instance(data, of)
    instance.place(*[0] * partitions)
    for number in range(partitions):
        of_partition = {k: v for k, v in entries.items() if place(k, partitions) == number}
        store_partition = instance.hold(number, of_partition)
        store_partition.progress.end_fetched(len(of_partition), boot_time())
    try:
        yield instance
    finally:
        instance.close()
        data.close()


def write(store_partition: StorePartition, entries: Mapping[bytes, bytes]) -> None:
    """Writes entries as ingest does."""
    batch = store_partition.store.new_batch()
    for key, entry in entries.items():
        batch.put(key, entry)
    store_partition.store.write(batch, 10, store_partition.metadata)


def ageless(answer: Answer) -> Answer:
    headers = [(n, b"" if n == b"staleness" else v) for n, v in answer.headers]
    return replace(answer, headers=headers)
