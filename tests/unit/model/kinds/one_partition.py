"""One store partition that is fed and queried by the product's code, for tests of kinds."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from backend.http.responses import history_body
from backend.ingest.batch import build_batch
from backend.ingest.expiry import expiry_batch
from backend.queries.history import History, Span
from backend.queries.routing import ReadOptions
from backend.queries.versions import VersionedReads
from backend.storage.data_directory import DataDirectory
from model.records import ENTRY, EXPIRY
from model.views import View
from tests.support.in_process.fakes import Rec
from tests.support.in_process.instance import Instance

Entry = dict[str, Any]


def record(store: str, offset: int, key: str, first: int, second: int, value: Any) -> Rec:
    """A record of a kind of store. window: start, sequence; session: end, start; versioned:
    timestamp, unused. Times in ms; a value of None is a tombstone."""
    raw = None if value is None else json.dumps(value).encode()
    suffix = {
        "window": lambda: struct.pack(">qi", first, second),
        "session": lambda: struct.pack(">qq", first, second),
        "versioned": lambda: b"",
    }[store]()
    return Rec(offset, key.encode() + suffix, raw, first)


@dataclass
class FedPartition:
    """One store partition, fed and queried by the product's code."""

    instance: Instance
    offset: int = 0  # of the next record

    def feed(self, records: list[Rec]) -> None:
        store_partition = self.instance.context.store_partitions.get("orders", 0)
        assert store_partition is not None
        batch = store_partition.store.new_batch()
        result = build_batch(batch, self.instance.view, records, store_partition.store.stream_time)
        assert not result.dead_letters
        store_partition.store.write(batch, records[-1].offset() + 1, None, result.stream_time)

    def clean(self) -> int:
        """Delete all expired entries; returns the number of entries that are left."""
        store_partition = self.instance.context.store_partitions.get("orders", 0)
        assert store_partition is not None
        while (batch := expiry_batch(store_partition)) is not None:
            store_partition.store.write(batch, store_partition.store.position or 0)
        return sum(1 for _ in store_partition.store.scan(ENTRY, EXPIRY))

    def pages(self, key: str, span: Callable[..., Span], limit: int) -> list[Entry]:
        """All items of a key's history, read in pages of `limit`."""
        history = History(self.instance.reads)
        items: list[Entry] = []
        cursor = None
        while True:
            _, page = history.read(key.encode(), ReadOptions(), span(limit=limit, cursor=cursor))
            document = json.loads(history_body(history.view, key.encode(), page))
            assert document["key"] == key
            assert len(document["items"]) <= limit
            items += document["items"]
            cursor = document["next"]
            if cursor is None:
                return items
            assert len(document["items"]) == limit


@contextmanager
def fed_partition(of: View) -> Iterator[FedPartition]:
    with TemporaryDirectory() as folder:
        data = DataDirectory(Path(folder) / "data")
        instance = Instance(data, of)
        if of.store == "versioned":
            instance.reads = VersionedReads(of, instance.context)
        instance.place(0)
        instance.hold(0)
        try:
            yield FedPartition(instance)
        finally:
            instance.close()
            data.close()
