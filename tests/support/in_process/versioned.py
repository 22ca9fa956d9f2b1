"""Two instances in one process with two versions of a view, which forward requests to each other.

The versions have different partition counts and disjoint values: `{"v": version, "n": …}`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import orjson

from backend.cluster.peer_client import _is_forwarded
from backend.http.access import AccessControl
from backend.http.router import Router
from backend.ingest.store_partitions import StorePartition
from backend.security.authorization import passed_on
from backend.storage.data_directory import DataDirectory
from backend.wire.answer import MARK, Answer, Header
from model.partitioner import partition_of
from model.progress import Progress
from model.records import ENTRY, entry_head
from model.topology import Epoch, Member, PlacedView, Topology
from model.view_versions import VersionState
from model.views import View
from tests.support.in_process.examples import metadata, view
from tests.support.in_process.instance import context

FIRST = view("orders", path="/o", topic="orders")
SECOND = view("orders@2", path="/o", topic="orders-v2")
COUNTS = {1: 2, 2: 3}
KEYS = [f"key-{n}" for n in range(12)]
ONLY_IN_FIRST = "first"
MEMBERS = Member("b1", "127.0.0.1", 8081), Member("b2", "127.0.0.1", 8082)


class Said(Answer):
    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def named(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.headers}

    @property
    def version(self) -> int:
        return int(self.named["view-version"])


class Deployment:
    """The instances of two versions, and the PeerClient with which they forward. `asked`: the
    forwarded requests, as (instance, target)."""

    def __init__(
        self, folder: Path, views: Sequence[View], access: AccessControl | None, **settings: Any
    ) -> None:
        self.asked: list[tuple[str, str]] = []
        self.contexts = {}
        self.routers = {}
        self._folders: list[DataDirectory] = []
        placed = {}
        for of in views:
            active = tuple(partition % 2 for partition in range(COUNTS[of.version]))
            placed[of.name] = PlacedView(of.description(), of.hash, active)
        self._topology = Topology(Epoch(5, 1), MEMBERS, placed)
        for number, member in enumerate(MEMBERS):
            made = context(
                views, instance_id=member.id, port=member.port, wait_timeout=0, **settings
            )
            made.group.apply_topology(self._topology)
            data = DataDirectory(folder / member.id)
            self._folders.append(data)
            for of in views:
                for partition in range(COUNTS[of.version]):
                    if partition % 2 == number:
                        made.store_partitions.add(_opened(data, of, partition))
            self.contexts[member.id] = made
            self.routers[member.id] = Router(made, cast(Any, None), access, cast(Any, self))

    def switch(self, version: int, *instances: str, **more: Any) -> None:
        """These instances (all by default) learn that the version is current."""
        previous = 3 - version
        revision = max(c.group.versions.revision for c in self.contexts.values()) + 1
        for id_ in instances or self.contexts:
            state = VersionState(version, previous, revision=revision, **more)
            self.contexts[id_].group.apply_versions({"orders": state})

    async def request(
        self,
        instance: str,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Sequence[Header] = (),
        on_chunk: Any = None,
    ) -> Said:
        path, _, query = target.partition("?")
        scope = {
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "method": method,
            "headers": [(b"content-type", b"application/json"), *headers],
            "client": ("127.0.0.1", 1),
        }
        answer = Said(0, [], b"")
        arrived = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if arrived.is_set():
                await asyncio.Event().wait()  # the client stays
            arrived.set()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status, answer.headers = message["status"], message["headers"]
                return
            answer.body += message["body"]
            if on_chunk is not None:
                on_chunk(answer)

        await self.routers[instance](scope, receive, send)
        return answer

    def ask(
        self,
        target: str,
        instance: str = "b1",
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Said:
        raw = b"" if body is None else orjson.dumps(body)
        given = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        return asyncio.run(self.request(instance, method, target, raw, given))

    async def forward(
        self,
        member: Member,
        method: str,
        target: bytes,
        headers: list[Header],
        body: bytes = b"",
        timeout: float | None = None,
        within: float | None = None,
    ) -> Answer:
        """As a PeerClient, which passes on some of the headers."""
        await asyncio.sleep(0)
        self.asked.append((member.id, target.decode()))
        kept = [*filter(_is_forwarded, headers), *passed_on(), (MARK, b"peer")]
        found = await self.request(member.id, method, target.decode(), body, kept)
        omitted = (b"topology-epoch", b"content-length")
        return Answer(found.status, [h for h in found.headers if h[0] not in omitted], found.body)

    async def post(
        self, member: Member, target: bytes, body: bytes, timeout: float | None = None
    ) -> Answer:
        return await self.forward(member, "POST", target, [], body, timeout)

    def close(self) -> None:
        for made in self.contexts.values():
            for opened in made.store_partitions.all():
                opened.store.close()
        for folder in self._folders:
            folder.close()


def _opened(data: DataDirectory, of: View, partition: int) -> StorePartition:
    """A store partition with its share of the keys."""
    store, _ = data.open(of.name, partition)
    made_from = metadata(of, topic_id=f"id of {of.topic}", partitions=COUNTS[of.version])
    batch = store.new_batch()
    home = partition_of(of.partitioner)
    keys = [*KEYS, ONLY_IN_FIRST] if of.version == 1 else KEYS
    for n, key in enumerate(keys):
        if home(key.encode(), COUNTS[of.version]) == partition:
            value = orjson.dumps({"v": of.version, "n": n})
            batch.put(ENTRY + key.encode(), entry_head(7, n) + value)
    store.write(batch, 100, made_from)
    return StorePartition(of, partition, store, Progress(100, 0, True), made_from, 0.0)


@contextmanager
def two_versions(
    folder: Path, access: AccessControl | None = None, **settings: Any
) -> Iterator[Deployment]:
    made = Deployment(folder, (FIRST, SECOND), access, **settings)
    try:
        yield made
    finally:
        made.close()
