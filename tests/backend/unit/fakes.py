"""Stand-ins for what needs a broker: facts that never change, a member and an ingest that idle;
and an instance whose store partitions are real.
"""

import time
from collections.abc import Iterable
from typing import Any, cast

import pytest

from backend.api.answer import Answer
from backend.api.holders import ReadOptions
from backend.api.reads import ViewReads
from backend.api.serving import Serving
from backend.core.errors import Unavailable
from backend.core.progress import Progress
from backend.core.records import ENTRY, Identity, entry_head
from backend.core.topology import Epoch, Member, PlacedView, Topology
from backend.core.views import View
from backend.ingest.facts import TopicFacts
from backend.ingest.held import Held, HeldPartition
from backend.settings import Settings
from backend.storage.folder import DataFolder
from tests.backend.unit.examples import ORDERS, identity

ME, OTHER = Member("b1", "127.0.0.1", 8081), Member("b2", "127.0.0.1", 8082)


class FakeWatcher:
    """Has the facts that a test puts into `latest`."""

    alive = True

    def __init__(self) -> None:
        self.latest: dict[str, TopicFacts] = {}

    def facts(self, topic: str) -> TopicFacts | None:
        return self.latest.get(topic)


class FakeIngestor:
    alive = True
    failure = None
    rebuilds = 0
    progress_at = float("inf")

    def opening(self) -> dict[tuple[str, int], str]:
        return {}


class FakeCopier:
    def under_way(self) -> dict[tuple[str, int], Any]:
        return {}


class FakeMember:
    alive = True


def serving(views: Iterable[View] = (ORDERS,), **settings: Any) -> Serving:
    """An instance "b1" with nothing open and no map yet."""
    views = tuple(views)
    return Serving(
        settings=Settings(**{"instance_id": "b1", **settings}),
        views={view.name: view for view in views},
        held=Held(views),
        watcher=cast(Any, FakeWatcher()),
        ingestor=cast(Any, FakeIngestor()),
        copier=cast(Any, FakeCopier()),
        member=cast(Any, FakeMember()),
        appender=cast(Any, None),
    )


class Instance:
    """Instance b1 with one view, some of whose partitions it holds."""

    def __init__(self, folder: DataFolder, of: View, **settings: Any) -> None:
        self.folder = folder
        self.view = of
        self.serving: Serving = serving([of], **settings)
        self.reads = ViewReads(of, self.serving)

    def place(self, *active: int, **more: Any) -> None:
        """The map: who is active, 0 for b1, 1 for b2."""
        placed = PlacedView(self.view.description(), self.view.hash, active, **more)
        self.serving.held.scattered = frozenset({self.view.name} if placed.mis_partitioned else ())
        views = {self.view.name: placed}
        self.serving.take_topology(Topology(Epoch(5, 1), (ME, OTHER), views))

    def hold(
        self,
        number: int,
        entries: dict[bytes, bytes] | None = None,
        goal: int = 0,
        answerable: bool = True,
        made_from: Identity | None = None,
    ) -> HeldPartition:
        """Open a partition with these records, at offsets 0, 1, 2, …"""
        store, _ = self.folder.open(self.view.name, number)
        made_from = made_from or identity(self.view)
        batch = store.new_batch()
        for offset, (key, value) in enumerate((entries or {}).items()):
            batch.put(ENTRY + self.view.key_codec.to_store(key), entry_head(7, offset) + value)
        store.write(batch, len(entries or {}), made_from)
        progress = Progress(store.position or 0, goal, answerable)
        held = HeldPartition(self.view, number, store, progress, made_from, time.monotonic())
        self.serving.held.add(held)
        return held

    def read(self, key: bytes, options: ReadOptions = ReadOptions()) -> Answer:  # noqa: B008
        return self.reads.read(key, options)

    def refusal(self, key: bytes, options: ReadOptions = ReadOptions()) -> Unavailable:  # noqa: B008
        with pytest.raises(Unavailable) as error:
            self.read(key, options)
        assert dict(error.value.headers())[b"retry-after"] == b"1"
        return error.value

    def close(self) -> None:
        for held in self.serving.held.all():
            held.store.close()
