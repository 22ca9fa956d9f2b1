"""Several complete instances in one process, without Kafka and the network: ingest with real store
partitions, and the HTTP side from the router on.

Nothing runs in the background. The test appends records to a log, lets an instance apply some of
them, and distributes topologies. `table` is the table of the reference from which an instance must
answer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from backend.cluster.liveness import RUNNING
from backend.ingest.store_partitions import StorePartition
from backend.wire.answer import MARK, Header
from backend.wire.answer import Answer as Sent
from model.partitioner import partition_of
from model.problems import Unavailable
from model.records import hash_of_topic
from model.topology import ACTIVE, NO_MEMBER, Epoch, Member, PlacedView, Topology
from model.views import ANY_PARTITION, View
from tests.support.in_process.logs import CollectedDeadLetters
from tests.support.in_process.node import Node
from tests.support.reference.questions import Answer
from tests.support.reference.tables import Partition, Record, Table, fold

T = TypeVar("T")


class Cluster:
    """Instances of one view. It is also the PeerClient with which they forward to each other."""

    def __init__(self, folder: Path, view: View, instances: int = 3, partitions: int = 3) -> None:
        self.view = view
        self.logs: list[list[Record]] = [[] for _ in range(partitions)]
        self.letters = CollectedDeadLetters()
        self._folder = folder
        self._runner = asyncio.Runner()
        self._epochs = itertools.count(1)
        self._members = tuple(
            Member(f"b{n}", "127.0.0.1", 8080 + n) for n in range(1, instances + 1)
        )
        self.active = [n % instances for n in range(partitions)]
        self.standbys: list[list[int]] = [[] for _ in range(partitions)]
        self.mispartitioned = False
        self.hung: set[str] = set()
        self.waits: list[float | None] = []  # time-outs (s) of forwards to hung instances
        self._partition_of = partition_of(
            "murmur2" if view.partitioner == ANY_PARTITION else view.partitioner
        )
        self.nodes: dict[str, Node] = {}
        for member in self._members:
            self.start(member.id)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the event loop of all instances."""
        return self._runner.run(coroutine)

    # events

    def home(self, key: bytes) -> int:
        return self._partition_of(key, len(self.logs))

    def write(self, record: Record, partition: int) -> None:
        assert record.offset == len(self.logs[partition])
        self.logs[partition].append(record)

    def start(self, id_: str) -> None:
        """Start an instance with its data on disk; it gets the topology at once."""
        member = next(member for member in self._members if member.id == id_)
        self.nodes[id_] = Node(self, member, self._folder / id_)
        for node in self.nodes.values():
            # like its first heartbeat: requests that failed while it was down do not count
            node.context.group.peers.keep(self.nodes)
            node.context.group.peers.heard(id_, RUNNING)
        self.place(self.active, self.standbys)

    def stop(self, id_: str) -> None:
        self.nodes.pop(id_).stop()

    def crash(self, id_: str) -> None:
        """Ends an instance without a clean stop: the metadata of its partitions stays as it is."""
        node = self.nodes.pop(id_)
        for store_partition in node.store_partitions.all():
            store_partition.store.close()
        node.folder.close()

    def place(self, active: list[int], standbys: list[list[int]] | None = None) -> None:
        """Distributes a topology. `active`: the instance number of each partition, or NO_MEMBER.
        `standbys`: the instance numbers of each partition's standbys."""
        running = [member.id in self.nodes for member in self._members]
        moved = tuple(
            partition
            for partition, (before, now) in enumerate(zip(self.active, active, strict=False))
            if before != now and before != NO_MEMBER and running[before]
        )
        self.active = list(active)
        self.standbys = standbys or [[] for _ in active]
        placed = PlacedView(
            self.view.description(),
            self.view.hash,
            tuple(active),
            self.mispartitioned,
            tuple(sorted(self._partition_counts())),
            moved=moved,
            topic_hash=hash_of_topic("topic-1"),
            standbys=tuple(map(tuple, self.standbys)),
        )
        topology = Topology(Epoch(next(self._epochs), 1), self._members, {self.view.name: placed})
        for node in self.nodes.values():
            roles = topology.roles_of(node.member.id, self.view.name)
            node.store_partitions.apply_topology(topology)
            units = {(self.view.name, p): role for role, those in roles.items() for p in those}
            shared = {unit for unit in units if topology.is_shared(node.member, *unit)}
            before = node.context.group.topology
            taken_over = {
                (self.view.name, p)
                for p in range(len(active))
                if topology.is_taken_over(before, self.view.name, p)
            }
            node.ingest.loop.assign(units, shared, taken_over)
            node.context.group.apply_topology(topology)

    def _partition_counts(self) -> set[int]:
        """The partition counts that the running instances report."""
        nodes = self.nodes.values()
        return {
            each for node in nodes for each in node.store_partitions.own_partition_counts(self.view)
        }

    def add_partitions(self, number: int) -> None:
        """Adds empty partitions to the topic. The topology does not have them yet."""
        self.logs += [[] for _ in range(number)]

    def turn(self, id_: str, most: int = 10_000) -> None:
        """One instance opens and closes partitions and applies records. If it finds mispartitioned
        records, the others learn of it."""
        node = self.nodes[id_]
        node.turn(most)
        if node.store_partitions.mispartitioned_views() and not self.mispartitioned:
            self.mispartitioned = True
            self.place(self.active, self.standbys)

    def settle(self) -> None:
        """Lets all running instances open their partitions and apply all records."""
        for _ in range(3):
            for id_ in self.nodes:
                self.turn(id_)

    # expected answers

    def holder(
        self, id_: str, partition: int, whole: bool = False, stale: str = ""
    ) -> StorePartition | None:
        """The store partition from which an instance answers; None if there is none.

        This is the instance's own store partition if it has one, else that of the active, else that
        of a standby. For a query of the `whole` view, the active comes first, unless the view is
        global.
        """
        here = self.nodes[id_].store_partitions.get(self.view.name, partition)
        if stale == "never":
            for store_partition in (None if whole else here, self._held_by_the_active(partition)):
                if (
                    store_partition is not None
                    and store_partition.role == ACTIVE
                    and store_partition.progress.answerable
                ):
                    return store_partition
            return None
        order = [number for number in self._holders(partition) if self._id(number) != id_]
        others = [
            node.store_partitions.get(self.view.name, partition)
            for number in order
            if (node := self.nodes.get(self._id(number))) is not None
        ]
        spreads = whole and self.view.store != "global"
        active_first = spreads and order and order[0] == self.active[partition]
        running = active_first and self._id(order[0]) in self.nodes
        first = others[:1] if running else []
        for store_partition in (*first, here, *others):
            if store_partition is not None and (
                store_partition.progress.answerable or stale == "allow"
            ):
                return store_partition
        return None

    def answerers(self, id_: str, stale: str = "") -> set[str]:
        """The instances that must read for a query of all partitions, as `instance; role`."""
        wanted = [self.holder(id_, p, whole=True, stale=stale) for p in range(len(self.logs))]
        return {
            f"{node_id}; {store_partition.role}"
            for node_id, node in self.nodes.items()
            for store_partition in node.store_partitions.all()
            if any(store_partition is each for each in wanted)
        }

    def _held_by_the_active(self, partition: int) -> StorePartition | None:
        """The store partition of the active in the topology."""
        active = self.active[partition]
        node = None if active == NO_MEMBER else self.nodes.get(self._id(active))
        return None if node is None else node.store_partitions.get(self.view.name, partition)

    def _holders(self, partition: int) -> list[int]:
        active = self.active[partition]
        return [*([] if active == NO_MEMBER else [active]), *self.standbys[partition]]

    def _id(self, number: int) -> str:
        return self._members[number].id

    def table(self, id_: str, stale: str = "", whole: bool = False) -> Table:
        """The table from which this instance must answer. A partition without state is a 503."""
        found: dict[int, Partition | None] = {}
        anywhere = self.view.partitioner == ANY_PARTITION or self.mispartitioned
        for partition, log in enumerate(self.logs):
            store_partition = self.holder(id_, partition, whole or anywhere, stale)
            found[partition] = None
            if store_partition is not None:
                found[partition] = fold(
                    self.view, partition, log, store_partition.progress.position
                )
        return Table(self.view, found, anywhere)

    def why_not(self, id_: str, partition: int, stale: str = "") -> set[str]:
        """The possible problem codes if a partition is not available: from an instance that has it,
        or for an instance that does not answer."""
        here = self.nodes[id_].store_partitions.get(self.view.name, partition)
        active = self.active[partition]
        if stale == "never":
            if active == NO_MEMBER:
                return {"nobody"} if here is None else {"nobody", "not-active", "catching-up"}
            if self._id(active) not in self.nodes:
                return {"owner-unreachable"}
            store_partition = self._held_by_the_active(partition)
            waits = store_partition is None or store_partition.role == ACTIVE
            return {"catching-up" if waits else "not-active"}
        holders = [self._id(number) for number in self._holders(partition)]
        if here is None and not holders:
            return {"nobody"}
        gone = any(id_ not in self.nodes for id_ in holders)
        waits = here is not None or any(id_ in self.nodes for id_ in holders)
        return {
            code for code, is_so in (("owner-unreachable", gone), ("catching-up", waits)) if is_so
        }

    # requests

    def ask(
        self,
        id_: str,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """A body is JSON unless the headers say otherwise."""
        given = {"content-type": "application/json"} if body else {}
        given |= {name.lower(): value for name, value in (headers or {}).items()}
        named = [(k.encode(), v.encode()) for k, v in given.items()]
        return self._runner.run(self._ask(id_, method, target.encode(), named, body))

    async def _ask(
        self, id_: str, method: str, target: bytes, headers: list[Header], body: bytes
    ) -> Answer:
        path, _, query = target.partition(b"?")
        scope = {
            "raw_path": path, "query_string": query, "method": method, "headers": headers,
            "client": ("127.0.0.1", 1),
        }  # fmt: skip
        status, named, received, complete = 0, list[Header](), b"", False

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, named, received, complete
            if message["type"] == "http.response.start":
                status, named = message["status"], message["headers"]
            else:
                received += message["body"]
                complete = not message.get("more_body")

        await self.nodes[id_].shell(scope, receive, send)
        assert complete, (id_, method, target, status, received)
        return Answer(status, {k.decode(): v.decode() for k, v in named}, received)

    async def forward(
        self,
        member: Member,
        method: str,
        target: bytes,
        headers: list[Header],
        body: bytes = b"",
        timeout: float | None = None,
        within: float | None = None,
    ) -> Sent:
        """Like PeerClient, without HTTP. `waits` gets the time-outs of forwards that hang."""
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

    async def post(
        self, member: Member, target: bytes, body: bytes, timeout: float | None = None
    ) -> Sent:
        return await self.forward(member, "POST", target, [], body, timeout)

    def close(self) -> None:
        for node in self.nodes.values():
            node.stop()
        self.nodes.clear()
        self._runner.close()
