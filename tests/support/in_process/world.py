"""Two instances of one view with real store partitions, which forward requests to each other."""

from __future__ import annotations

import asyncio
import json
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
from backend.security.client_claims import claimed
from backend.storage.data_directory import DataDirectory
from backend.wire.answer import Answer, Header
from model.partitioner import partition_of
from model.problems import Unavailable
from model.records import entry_head, tombstone_entry
from model.topology import Member
from model.views import ANY_PARTITION, View
from tests.support.in_process.instance import Instance

PARTITIONS = 4

NDJSON = "application/x-ndjson"


class Peers:
    """A PeerClient without a network. `down`: the ids of instances that do not answer."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.asked: list[tuple[str, bytes]] = []
        self.down: set[str] = set()

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
        self.asked.append((member.id, target))
        await asyncio.sleep(0)
        if member.id in self.down:
            raise Unavailable("owner-unreachable", "down")
        accept = next((value for name, value in headers if name == b"accept"), b"*/*")
        others = [each for each in headers if each[0] not in (b"accept", b"content-type")]
        return await self._world.request(
            member.id,
            method,
            target.decode(),
            body,
            accept=accept.decode(),
            headers=[*filter(_is_forwarded, others), *passed_on(), *claimed()],
        )

    async def post(
        self, member: Member, target: bytes, body: bytes, timeout: float | None = None
    ) -> Answer:
        return await self.forward(member, "POST", target, [], body, timeout)

    async def close(self) -> None:
        pass


class Said(Answer):
    """An answer, and whether it was sent completely."""

    complete = True

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def named(self) -> dict[bytes, bytes]:
        return dict(self.headers)


class World:
    """Instances b1 and b2. Partitions 0 and 2 belong to b1, 1 and 3 to b2, until `place`."""

    def __init__(
        self, folder: Path, view: View, access: AccessControl | None = None, **settings: Any
    ) -> None:
        self.view = view
        self.peers = Peers(self)
        self.offset = 0
        self.instances: dict[str, Instance] = {}
        self.routers: dict[str, Router] = {}
        for id_, port in (("b1", 8081), ("b2", 8082)):
            of = {"instance_id": id_, "port": port, "wait_timeout": 0, **settings}
            instance = Instance(DataDirectory(folder / id_), view, **of)
            peers = cast(Any, self.peers)
            router = Router(instance.context, cast(Any, None), access, peers)
            self.instances[id_], self.routers[id_] = instance, router
        self.place(0, 1, 0, 1)
        self.store_partitions: dict[int, StorePartition] = {}
        for partition in range(PARTITIONS):
            self.store_partitions[partition] = self.owner(partition).hold(partition)
        anywhere = view.partitioner == ANY_PARTITION
        self._partition_of = partition_of("murmur2" if anywhere else view.partitioner)

    def place(self, *active: int, **more: Any) -> None:
        for instance in self.instances.values():
            instance.place(*active, **more)

    def owner(self, partition: int) -> Instance:
        return self.instances["b2" if partition % 2 else "b1"]

    def partition(self, key: bytes) -> int:
        return self._partition_of(key, PARTITIONS)

    def put(
        self,
        record_key: bytes,
        value: bytes | None,
        timestamp: int = 7,
        partition: int | None = None,
    ) -> None:
        """Applies a record like ingest; `partition` overrides the partitioner."""
        self.put_all({record_key: value}, timestamp, partition)

    def put_all(
        self,
        records: Mapping[bytes, bytes | None],
        timestamp: int = 7,
        partition: int | None = None,
    ) -> None:
        by_partition: dict[int, list[tuple[bytes, bytes | None]]] = {}
        layout = self.view.layout
        for key, value in records.items():
            home = self.partition(layout.bare_key(key)) if partition is None else partition
            by_partition.setdefault(home, []).append((key, value))
        for home, of_home in by_partition.items():
            store = self.store_partitions[home].store
            batch = store.new_batch()
            for key, value in of_home:
                self.offset += 1
                stored_key = layout.stored_key(key, timestamp)
                if value is not None:
                    batch.put(stored_key, entry_head(timestamp, self.offset) + value)
                elif self.view.store == "versioned":
                    batch.put(stored_key, tombstone_entry(timestamp, self.offset))
                else:
                    batch.delete(stored_key)
            store.write(batch, self.offset)

    def clear(self) -> None:
        for store_partition in self.store_partitions.values():
            batch = store_partition.store.new_batch()
            for key, _ in store_partition.store.scan(b"\x01", b"\x03"):
                batch.delete(key)
            store_partition.store.write(batch, self.offset)

    async def request(
        self,
        instance: str,
        method: str,
        target: str,
        body: bytes = b"",
        accept: str = "*/*",
        on_chunk: Any = None,
        headers: Sequence[Header] = (),
    ) -> Said:
        path, _, query = target.partition("?")
        scope = {
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "method": method,
            "headers": [
                (b"accept", accept.encode()),
                (b"content-type", b"application/json"),
                *headers,
            ],
            "client": ("127.0.0.1", 1),
        }
        answer = Said(0, [], b"")

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status, answer.headers = message["status"], message["headers"]
                answer.complete = False
                return
            answer.body += message["body"]
            answer.complete = not message.get("more_body")
            if on_chunk is not None:
                on_chunk()

        await self.routers[instance](scope, receive, send)
        return answer

    def ask(self, target: str, instance: str = "b1", **more: Any) -> Said:
        return asyncio.run(
            self.request(instance, more.pop("method", "GET"), f"/views/orders/{target}", **more)
        )

    def code(self, target: str, status: int, **more: Any) -> str:
        answer = self.ask(target, **more)
        assert answer.status == status, answer
        return str(answer.json["code"])

    def batch(self, keys: Any, instance: str = "b1", query: str = "") -> Said:
        body = keys if isinstance(keys, bytes) else json.dumps({"keys": keys}).encode()
        return self.ask(f"batch{query}", instance, method="POST", body=body)

    def pages(self, target: str, instance: str = "b1") -> Iterator[list[Any]]:
        """The items of each page, up to the last page."""
        cursor = ""
        for _ in range(500):
            answer = self.ask(target + (f"&cursor={cursor}" if cursor else ""), instance)
            assert answer.status == 200, answer
            yield answer.json["items"]
            cursor = answer.json["next"]
            if cursor is None:
                return
        raise AssertionError("too many pages")

    def close(self) -> None:
        for instance in self.instances.values():
            instance.close()
            instance.folder.close()


@contextmanager
def world(
    folder: Path, view: View, access: AccessControl | None = None, **settings: Any
) -> Iterator[World]:
    made = World(folder, view, access, **settings)
    try:
        yield made
    finally:
        made.close()


def numbered(count: int) -> dict[bytes, bytes]:
    return {b"key-%05d" % n: b'{"n":%d}' % n for n in range(count)}
