"""Instances whose answers to coalesced reads are compared with those to single ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from backend.http.router import Router
from backend.ingest.store_partitions import StorePartition
from backend.storage.data_directory import DataDirectory
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPost
from backend.wire.point_batch import ASK_ALONE, Head, Item, Reads
from model.machine.clock import boot_time
from model.partitioner import partition_of
from model.views import View
from tests.support.in_process.instance import Instance
from tests.support.in_process.requests import LOOPBACK
from tests.support.point_batch import decode_answers, encode_paths

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


def answers_to_paths(shell: Router, paths: list[bytes]) -> list[Answer | None]:
    """The answer to each coalesced read; None for those that have to be sent separately."""
    answer = shell.fast_path.reads_now(PlainPost(None, encode_paths(paths)), LOOPBACK)
    assert answer.status == 200, answer.body
    epoch, _, heads, items = decode_answers(answer.body, [Reads(None, paths)])
    assert epoch == b"5-1"
    assert len(items) == len(paths)
    return [None if item == ASK_ALONE else whole_answer(heads[item[0]], item) for item in items]


def whole_answer(head: Head, item: Item) -> Answer:
    """An answer as the proxy assembles it."""
    status, lines = head
    _, etag, body = item
    split = [line.split(b": ", 1) for line in lines.splitlines()]
    headers = [(name, value) for name, value in split]
    if etag:
        headers.append((b"etag", etag))
    length = (b"content-length", b"%d" % len(body))
    return Answer(status, [*headers, length, (b"topology-epoch", b"5-1")], body)
