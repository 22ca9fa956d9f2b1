"""Several whole instances in one process, but for Kafka and the network: ingest with real store
partitions, the HTTP side from the shell on, and one another.

Nothing runs by itself: a log gets records, an instance applies some of them, a map is handed out,
each when the test says so. `table` is what an instance has to answer from, by the reference.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, cast

from backend.cluster.peer_client import MARK
from backend.http.router import Router
from backend.ingest.batch import DeadLetter
from backend.ingest.consumer import Fetched, Source
from backend.ingest.dead_letters import DeadLetters
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.ingest.topic_metadata import TopicMetadata
from backend.instance_context import InstanceContext
from backend.settings import Settings
from backend.storage.data_directory import DataDirectory
from backend.wire.answer import Answer as Sent
from backend.wire.answer import Header
from model.partitioner import partition_of
from model.problems import Unavailable
from model.topology import ACTIVE, NOBODY, Epoch, Member, PlacedView, Topology
from model.views import ANY_PARTITION, View
from tests.backend.unit.fakes import FakeMember
from tests.backend.unit.ingest_parts import ingest_of
from tests.backend.unit.test_apply import Rec
from tests.questions import Answer
from tests.reference import Partition, Record, Table, fold


class LogFetcher:
    """A RecordConsumer of the cluster's logs."""

    def __init__(self, logs: list[list[Record]], view: View) -> None:
        self._logs = logs
        self._view = view
        self._positions: dict[Source, int] = {}
        self._told: dict[Source, int] = {}

    def assign(self, source: Source, position: int, leader_epoch: int) -> None:
        self._positions[source] = position
        self._told.pop(source, None)

    def unassign(self, source: Source) -> None:
        self._positions.pop(source, None)

    def fetch(self, most: int, timeout: float = 0) -> Fetched:
        """Up to `most` records of each partition, and the ends that were reached."""
        fetched = Fetched()
        for source, position in self._positions.items():
            log = self._logs[source[1]]
            run = log[position : position + most]
            if run:
                fetched.records[source] = [
                    Rec(r.offset, r.record_key(self._view), r.value, r.timestamp) for r in run
                ]
            end = self._positions[source] = position + len(run)
            if end == len(log) and self._told.get(source) != end:
                fetched.ends[source] = self._told[source] = end
        return fetched


class LogWatcher:
    """A MetadataPoller of the cluster's logs, that looks when it is told to."""

    alive = True

    def __init__(self, logs: list[list[Record]], view: View) -> None:
        self._logs = logs
        self._topic = view.topic
        self.latest: dict[str, TopicMetadata] = {}
        self.refresh()

    def refresh(self) -> None:
        ends = {number: len(log) for number, log in enumerate(self._logs)}
        starts = dict.fromkeys(ends, 0)
        facts = TopicMetadata("topic-1", len(ends), starts, ends, None, time.monotonic())
        self.latest[self._topic] = facts

    def facts(self, topic: str) -> TopicMetadata | None:
        return self.latest.get(topic)

    def fresh(self, topic: str) -> TopicMetadata | None:
        self.refresh()
        return self.facts(topic)

    def watch(self, topics: frozenset[str]) -> None:
        pass


class NoCopies:
    """In place of a SnapshotFetcher: everything is read from the log."""

    def has_ended(self, view: View, partition: int, facts: TopicMetadata) -> bool:
        return True

    def keep(self, wanted: Set[tuple[str, int]]) -> None:
        pass


class Letters(DeadLetters):
    """The dead letters of a view: partition, offset."""

    def __init__(self) -> None:
        super().__init__({}, 0)
        self.sent: set[tuple[int, int]] = set()

    def send(self, view: View, partition: int, letters: Sequence[DeadLetter]) -> None:
        self.sent.update((partition, letter.record.offset()) for letter in letters)


@cache
def _settings(member: Member) -> Settings:
    return Settings(instance_id=member.id, port=member.port, wait_timeout=0)


class Node:
    """One instance, from its start to its stop."""

    def __init__(self, cluster: Cluster, member: Member, folder: Path) -> None:
        view = cluster.view
        self.member = member
        self.folder = DataDirectory(folder)
        self.held = PartitionRegistry((view,))
        self.metadata_poller = LogWatcher(cluster.logs, view)
        self.fetcher = LogFetcher(cluster.logs, view)
        self.ingest = ingest_of(
            [view],
            self.folder,
            self.held,
            self.metadata_poller,
            self.fetcher,
            dead_letters=cluster.letters,
            snapshots=NoCopies(),
            acceptable_recovery_lag=5,
            cleanup_delay=600,
        )
        self.context = InstanceContext(
            settings=_settings(member),
            views={view.name: view},
            held=self.held,
            metadata_poller=cast(Any, self.metadata_poller),
            ingest_loop=self.ingest.loop,
            snapshot_fetcher=cast(Any, NoCopies()),
            member=cast(Any, FakeMember()),
            appender=cast(Any, None),
        )
        self.shell = Router(self.context, cast(Any, None))
        self.shell.start(cast(Any, cluster))

    def turn(self, most: int) -> None:
        """What the ingest thread does in one round, with up to `most` records a partition."""
        self.metadata_poller.refresh()
        self.ingest.loop.turn(lambda: self.fetcher.fetch(most))

    def stop(self) -> None:
        for held in self.held.all():
            self.ingest.lifecycle.close(held)
        self.folder.close()


class Cluster:
    """Instances of one view; also the PeerClient by which they reach one another."""

    def __init__(self, folder: Path, view: View, instances: int = 3, partitions: int = 3) -> None:
        self.view = view
        self.logs: list[list[Record]] = [[] for _ in range(partitions)]
        self.letters = Letters()
        self._folder = folder
        self._runner = asyncio.Runner()
        self._epochs = itertools.count(1)
        self._members = tuple(
            Member(f"b{n}", "127.0.0.1", 8080 + n) for n in range(1, instances + 1)
        )
        self.active = [n % instances for n in range(partitions)]
        self.standbys: list[list[int]] = [[] for _ in range(partitions)]
        self.mis_partitioned = False
        self.hung: set[str] = set()
        self.waits: list[float | None] = []  # s, for those that hang; None: as long as is set
        self._partition_of = partition_of(
            "murmur2" if view.partitioner == ANY_PARTITION else view.partitioner
        )
        self.nodes: dict[str, Node] = {}
        for member in self._members:
            self.start(member.id)

    # what happens

    def home(self, key: bytes) -> int:
        return self._partition_of(key, len(self.logs))

    def write(self, record: Record, partition: int) -> None:
        assert record.offset == len(self.logs[partition])
        self.logs[partition].append(record)

    def start(self, id_: str) -> None:
        """Anew, on what it has kept on disk; it gets the map at once."""
        member = next(member for member in self._members if member.id == id_)
        self.nodes[id_] = Node(self, member, self._folder / id_)
        self.place(self.active, self.standbys)

    def stop(self, id_: str) -> None:
        self.nodes.pop(id_).stop()

    def crash(self, id_: str) -> None:
        """It ends without a word: what it noted of its partitions stays as it was."""
        node = self.nodes.pop(id_)
        for held in node.held.all():
            held.store.close()
        node.folder.close()

    def place(self, active: list[int], standbys: list[list[int]] | None = None) -> None:
        """Hands out a map: of each partition the number of its instance, or NOBODY; and those of
        its standbys."""
        running = [member.id in self.nodes for member in self._members]
        moved = tuple(
            partition
            for partition, (before, now) in enumerate(zip(self.active, active, strict=True))
            if before != now and before != NOBODY and running[before]
        )
        self.active = list(active)
        self.standbys = standbys or [[] for _ in active]
        placed = PlacedView(
            self.view.description(),
            self.view.hash,
            tuple(active),
            self.mis_partitioned,
            len(active),
            moved=moved,
            standbys=tuple(map(tuple, self.standbys)),
        )
        topology = Topology(Epoch(next(self._epochs), 1), self._members, {self.view.name: placed})
        for node in self.nodes.values():
            roles = topology.roles_of(node.member.id, self.view.name)
            node.held.scattered = frozenset([self.view.name] if self.mis_partitioned else [])
            units = {(self.view.name, p): role for role, those in roles.items() for p in those}
            shared = {unit for unit in units if topology.is_shared(node.member, *unit)}
            before = node.context.topology
            taken_over = {
                (self.view.name, p)
                for p in range(len(active))
                if topology.is_taken_over(before, self.view.name, p)
            }
            node.ingest.loop.hold(units, shared, taken_over)
            node.context.take_topology(topology)

    def turn(self, id_: str, most: int = 10_000) -> None:
        """One instance opens, closes and applies; what it finds out is known to all."""
        node = self.nodes[id_]
        node.turn(most)
        if node.held.mis_partitioned() and not self.mis_partitioned:
            self.mis_partitioned = True
            self.place(self.active, self.standbys)

    def settle(self) -> None:
        """All that is held by one that runs is open and up to date."""
        for _ in range(3):
            for id_ in self.nodes:
                self.turn(id_)

    # what is to be answered

    def holder(
        self, asked: str, partition: int, whole: bool = False, stale: str = ""
    ) -> StorePartition | None:
        """From which store partition an instance answers; None where nobody can.

        What it has itself, while it has it; else the active's, else a standby's. Of the `whole`
        view the active's is the first.
        """
        here = self.nodes[asked].held.get(self.view.name, partition)
        if stale == "never":
            for held in (None if whole else here, self._held_by_the_active(partition)):
                if held is not None and held.role == ACTIVE and held.progress.answerable:
                    return held
            return None
        order = [number for number in self._holders(partition) if self._id(number) != asked]
        others = [
            node.held.get(self.view.name, partition)
            for number in order
            if (node := self.nodes.get(self._id(number))) is not None
        ]
        active_first = whole and order and order[0] == self.active[partition]
        running = active_first and self._id(order[0]) in self.nodes
        first = others[:1] if running else []
        for held in (*first, here, *others):
            if held is not None and (held.progress.answerable or stale == "allow"):
                return held
        return None

    def answerers(self, asked: str, stale: str = "") -> set[str]:
        """Who has to read where all partitions are asked, as `instance; role`."""
        wanted = [self.holder(asked, p, whole=True, stale=stale) for p in range(len(self.logs))]
        return {
            f"{id_}; {held.role}"
            for id_, node in self.nodes.items()
            for held in node.held.all()
            if any(held is each for each in wanted)
        }

    def _held_by_the_active(self, partition: int) -> StorePartition | None:
        """By whom the map says so."""
        active = self.active[partition]
        node = None if active == NOBODY else self.nodes.get(self._id(active))
        return None if node is None else node.held.get(self.view.name, partition)

    def _holders(self, partition: int) -> list[int]:
        active = self.active[partition]
        return [*([] if active == NOBODY else [active]), *self.standbys[partition]]

    def _id(self, number: int) -> str:
        return self._members[number].id

    def table(self, asked: str, stale: str = "", whole: bool = False) -> Table:
        """What this instance has to answer from; no state where it has to say 503."""
        found: dict[int, Partition | None] = {}
        anywhere = self.view.partitioner == ANY_PARTITION or self.mis_partitioned
        for partition, log in enumerate(self.logs):
            held = self.holder(asked, partition, whole or anywhere, stale)
            found[partition] = None
            if held is not None:
                found[partition] = fold(self.view, partition, log, held.progress.position)
        return Table(self.view, found, anywhere)

    def why_not(self, asked: str, partition: int, stale: str = "") -> set[str]:
        """The codes that tell why a partition cannot be answered for: what one of its holders says,
        or what is said of it."""
        here = self.nodes[asked].held.get(self.view.name, partition)
        active = self.active[partition]
        if stale == "never":
            if active == NOBODY:
                return {"nobody"} if here is None else {"nobody", "not-active", "catching-up"}
            if self._id(active) not in self.nodes:
                return {"owner-unreachable"}
            held = self._held_by_the_active(partition)
            waits = held is None or held.role == ACTIVE
            return {"catching-up" if waits else "not-active"}
        holders = [self._id(number) for number in self._holders(partition)]
        if here is None and not holders:
            return {"nobody"}
        gone = any(id_ not in self.nodes for id_ in holders)
        waits = here is not None or any(id_ in self.nodes for id_ in holders)
        return {
            code for code, is_so in (("owner-unreachable", gone), ("catching-up", waits)) if is_so
        }

    # asking

    def ask(
        self,
        id_: str,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        named = [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()]
        return self._runner.run(self._ask(id_, method, target.encode(), named, body))

    async def _ask(
        self, id_: str, method: str, target: bytes, headers: list[Header], body: bytes
    ) -> Answer:
        path, _, query = target.partition(b"?")
        scope = {
            "raw_path": path, "query_string": query, "method": method, "headers": headers,
        }  # fmt: skip
        status, named, said, complete = 0, list[Header](), b"", False

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, named, said, complete
            if message["type"] == "http.response.start":
                status, named = message["status"], message["headers"]
            else:
                said += message["body"]
                complete = not message.get("more_body")

        await self.nodes[id_].shell(scope, receive, send)
        assert complete, (id_, method, target, status, said)
        return Answer(status, {k.decode(): v.decode() for k, v in named}, said)

    async def forward(
        self,
        member: Member,
        method: str,
        target: bytes,
        headers: list[Header],
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Sent:
        """As PeerClient does it, without HTTP; how long it would have waited stands in `waits`."""
        await asyncio.sleep(0)
        if member.id in self.hung:
            self.waits.append(timeout)
            raise Unavailable("owner-unreachable", "It hangs.")
        if member.id not in self.nodes:
            raise Unavailable("owner-unreachable", "It was stopped.")
        answer = await self._ask(member.id, method, target, [*headers, (MARK, b"peer")], body)
        kept = [(k.encode(), v.encode()) for k, v in answer.headers.items()]
        return Sent(
            answer.status,
            [h for h in kept if h[0] not in (b"topology-epoch", b"content-length")],
            answer.body,
        )

    def close(self) -> None:
        for node in self.nodes.values():
            node.stop()
        self.nodes.clear()
        self._runner.close()
