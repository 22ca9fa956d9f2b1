"""One instance with real store partitions; nothing else of it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, cast

import pytest

from backend.http.responses import KeyResponses
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.instance.constants import Constants
from backend.instance.context import InstanceContext
from backend.instance.settings import Settings
from backend.queries.point import ViewReads
from backend.queries.routing import ReadOptions
from backend.storage.data_directory import DataDirectory
from backend.wire.answer import Answer
from model.machine.clock import boot_time
from model.problems import Unavailable
from model.progress import Progress
from model.records import ENTRY, StoreMetadata, entry_head
from model.topology import Epoch, Member, PlacedView, Topology
from model.views import View
from tests.support.in_process.examples import ORDERS, metadata
from tests.support.in_process.fakes import (
    FakeDeadLetterReader,
    FakeIngestor,
    FakeMember,
    FakeSnapshotFetcher,
    FakeUnusedGroups,
    FakeWatcher,
)

ME, OTHER = Member("b1", "127.0.0.1", 8081), Member("b2", "127.0.0.1", 8082)


_CONSTANTS = {field.name for field in fields(Constants)}


def context(views: Iterable[View] = (ORDERS,), **given: Any) -> InstanceContext:
    """An instance "b1" without open partitions and without a topology. `given`: settings, and
    constants that differ from the product's."""
    views = tuple(views)
    altered = {name: given.pop(name) for name in _CONSTANTS & given.keys()}
    return InstanceContext(
        settings=Settings(**{"instance_id": "b1", **given}),
        constants=Constants(**altered),
        views={view.name: view for view in views},
        store_partitions=PartitionRegistry(views),
        metadata_poller=cast(Any, FakeWatcher()),
        ingest_loop=cast(Any, FakeIngestor()),
        snapshot_fetcher=cast(Any, FakeSnapshotFetcher()),
        member=cast(Any, FakeMember()),
        appender=cast(Any, None),
        unused_groups=cast(Any, FakeUnusedGroups()),
        dead_letter_reader=cast(Any, FakeDeadLetterReader()),
    )


class Instance:
    """Instance b1 with one view and some of its partitions."""

    def __init__(self, folder: DataDirectory, of: View, **settings: Any) -> None:
        self.folder = folder
        self.view = of
        self.context: InstanceContext = context([of], **settings)
        self.reads = ViewReads(of, self.context)

    def place(self, *active: int, **more: Any) -> None:
        """Sets the topology: the active of each partition, 0 for b1, 1 for b2."""
        placed = PlacedView(self.view.description(), self.view.hash, active, **more)
        topology = Topology(Epoch(5, 1), (ME, OTHER), {self.view.name: placed})
        self.context.store_partitions.apply_topology(topology)
        self.context.apply_topology(topology)

    def hold(
        self,
        number: int,
        entries: dict[bytes, bytes] | None = None,
        goal: int = 0,
        answerable: bool = True,
        made_from: StoreMetadata | None = None,
    ) -> StorePartition:
        """Opens a partition with these records, at offsets 0, 1, 2, …"""
        store, _ = self.folder.open(self.view.name, number)
        placed = self.context.topology.views.get(self.view.name)
        partitions = len(placed.active) if placed else 1
        made_from = made_from or metadata(self.view, partitions=partitions)
        batch = store.new_batch()
        for offset, (key, value) in enumerate((entries or {}).items()):
            batch.put(ENTRY + self.view.key_codec.to_store(key), entry_head(7, offset) + value)
        store.write(batch, len(entries or {}), made_from)
        progress = Progress(store.position or 0, goal, answerable)
        store_partition = StorePartition(self.view, number, store, progress, made_from, boot_time())
        self.context.store_partitions.add(store_partition)
        return store_partition

    def read(self, key: bytes, options: ReadOptions = ReadOptions()) -> Answer:  # noqa: B008
        return KeyResponses(self.reads, self.context).point(key, options)

    def refusal(self, key: bytes, options: ReadOptions = ReadOptions()) -> Unavailable:  # noqa: B008
        with pytest.raises(Unavailable) as error:
            self.read(key, options)
        assert dict(error.value.headers())[b"retry-after"] == b"1"
        return error.value

    def close(self) -> None:
        for store_partition in self.context.store_partitions.all():
            store_partition.store.close()
