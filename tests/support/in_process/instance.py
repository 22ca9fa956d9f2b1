"""One instance with real store partitions; nothing else of it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, cast

import pytest

from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.group_state import GroupState
from backend.http.responses import KeyResponses
from backend.ingest.indexes.partition_indexes import open_indexes
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.instance.constants import Constants
from backend.instance.context import InstanceContext, KafkaRequests
from backend.instance.settings import Settings
from backend.queries.point import ViewReads
from backend.queries.routing import ReadOptions
from backend.security.certificates import Certificates
from backend.security.cluster import ClusterAccess
from backend.storage.data_directory import DataDirectory
from backend.telemetry.telemetry import Telemetry
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


class GivenSettings(Settings):
    """Settings that are not looked for in the environment, which takes several ms."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: Any, init_settings: Any, *_args: Any, **_sources: Any
    ) -> tuple[Any, ...]:
        return (init_settings,)


def context(views: Iterable[View] = (ORDERS,), **given: Any) -> InstanceContext:
    """An instance "b1" without open partitions and without a topology. `given`: settings, and
    constants that differ from the product's."""
    views = tuple(views)
    altered = {name: given.pop(name) for name in _CONSTANTS & given.keys()}
    return context_with(
        GivenSettings(**{"instance_id": "b1", **given}), views, constants=Constants(**altered)
    )


def context_with(settings: Settings, views: Sequence[View], **parts: Any) -> InstanceContext:
    """A context with these parts, and fakes for those that are missing."""
    by_name = {view.name: view for view in views}
    telemetry = Telemetry(by_name)
    kafka = {
        "appender": None,
        "record_reader": None,
        "dead_letter_reader": FakeDeadLetterReader(),
        "pipeline_commands": None,
        "unused_groups": FakeUnusedGroups(),
        "version_log": None,
        "deployment_log": None,
    }
    for name in kafka.keys() & parts.keys():
        kafka[name] = parts.pop(name)
    fakes = {
        "constants": Constants(),
        "group": GroupState(settings, by_name, telemetry),
        "store_partitions": PartitionRegistry(views),
        "metadata_poller": FakeWatcher(),
        "telemetry": telemetry,
        "pipelines": {},
        "member": FakeMember(),
        "ingest_loop": FakeIngestor(),
        "snapshot_fetcher": FakeSnapshotFetcher(),
        "pushes": None,
        "kafka": KafkaRequests(**cast(Any, kafka)),
        "cluster": ClusterAccess(),
        "certificates": Certificates(settings),
        "topologies": EncodedTopologies(),
        "rocksdb": lambda: ({}, 0),
        "on_disk": dict,
    }
    return InstanceContext(settings=settings, views=by_name, **cast(Any, {**fakes, **parts}))


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
        self.context.group.apply_topology(topology)

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
        placed = self.context.group.topology.views.get(self.view.name)
        partitions = len(placed.active) if placed else 1
        made_from = made_from or metadata(self.view, partitions=partitions)
        batch = store.new_batch()
        for offset, (key, value) in enumerate((entries or {}).items()):
            batch.put(ENTRY + self.view.key_codec.to_store(key), entry_head(7, offset) + value)
        store.write(batch, len(entries or {}), made_from)
        progress = Progress(store.position or 0, goal, answerable)
        store_partition = StorePartition(self.view, number, store, progress, made_from, boot_time())
        store_partition.indexes = open_indexes(self.view, store)
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
