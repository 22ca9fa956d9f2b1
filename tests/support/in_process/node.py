"""One complete instance of a cluster, from its start to its stop."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from backend.http.router import Router
from backend.ingest.pushes.push_fetcher import PushFetcher
from backend.ingest.store_partitions import PartitionRegistry
from backend.instance.constants import Constants
from backend.instance.settings import Settings
from backend.storage.data_directory import DataDirectory
from model.topology import Member
from tests.support.in_process.ingest import ingest_of
from tests.support.in_process.instance import context_with
from tests.support.in_process.logs import LogFetcher, LogMetadata, NoSnapshots

if TYPE_CHECKING:
    from tests.support.in_process.cluster import Cluster


@cache
def _settings(member: Member) -> Settings:
    return Settings(instance_id=member.id, port=member.port)


class Node:
    """One instance, from its start to its stop."""

    def __init__(self, cluster: Cluster, member: Member, folder: Path) -> None:
        view = cluster.view
        self.member = member
        self.folder = DataDirectory(folder)
        self.store_partitions = PartitionRegistry((view,))
        self.metadata_poller = LogMetadata(cluster.logs, view)
        self.fetcher = LogFetcher(cluster.logs, view)
        self.pushes = PushFetcher.for_views((view,), Path(), self.folder, interval=1)
        self.ingest = ingest_of(
            [view],
            self.folder,
            self.store_partitions,
            self.metadata_poller,
            self.fetcher,
            dead_letters=cluster.letters,
            snapshots=NoSnapshots(),
            acceptable_recovery_lag=5,
            cleanup_delay=600,
            fetcher=self.pushes,
        )
        self.context = context_with(
            _settings(member),
            [view],
            constants=Constants(wait_timeout=0),
            store_partitions=self.store_partitions,
            metadata_poller=self.metadata_poller,
            ingest_loop=self.ingest.loop,
            snapshot_fetcher=NoSnapshots(),
            pushes=self.pushes,
        )
        self.shell = Router(self.context, cast(Any, None), None, cast(Any, cluster))

    def turn(self, most: int) -> None:
        """One round of the ingest thread, with up to `most` records per partition."""
        self.metadata_poller.refresh()
        for name in self.pushes.states:
            self.pushes.look(name)
        self.pushes.fetch_requested()
        self.ingest.loop.run_once(lambda: self.fetcher.fetch(most))

    def stop(self) -> None:
        self.ingest.lifecycle.close_all()
        self.folder.close()
