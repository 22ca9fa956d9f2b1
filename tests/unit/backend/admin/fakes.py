"""Fake instances, and an InstanceContext without threads."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

from backend.cluster.liveness import RUNNING
from backend.ingest.store_partitions import PartitionRegistry, StorePartition
from backend.instance.context import InstanceContext
from backend.instance.settings import Settings
from model.machine.clock import boot_time
from model.progress import Progress
from model.records import StoreMetadata
from model.topology import Epoch, Member, PlacedView, Topology
from model.views import View
from tests.support.in_process.instance import context_with

ORDERS = View("orders", "orders-topic", "/orders", "string", "json", "murmur2")
EPOCH = Epoch(1_700_000_000_000, 7)


@contextlib.contextmanager
def answering(document: Any, status: int = 200) -> Iterator[int]:
    """A server that answers every path with `document` (bytes, or a JSON value); its port."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and sends nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        yield listener.getsockname()[1]


@contextlib.contextmanager
def nobody() -> Iterator[int]:
    """A port that refuses connections: it is bound, so no one else gets it, but not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def member(id_: str, port: int = 1) -> Member:
    return Member(id_, "127.0.0.1", port)


def held(
    partition: int,
    position: int = 10,
    goal: int = 10,
    end: int | None = 10,
    dead_letters: int = 0,
    mispartitioned: int = 0,
    held_for: float = 0.0,
) -> StorePartition:
    """An open store partition of ORDERS with 100 bytes."""
    now = boot_time()
    progress = Progress(0, goal, answerable=False)
    if end is not None:
        progress.end_fetched(end, now - held_for, end + bool(held_for))
        progress.end_fetched(end, now, end + bool(held_for))
    progress.applied(position)
    store: Any = SimpleNamespace(size=lambda: 100, entries=lambda: 3)
    metadata = StoreMetadata(ORDERS.hash, "topic-id", 3, 0, True, mispartitioned, dead_letters, 0)
    return StorePartition(ORDERS, partition, store, progress, metadata, now - 1)


def context(
    *members: Member,
    active: tuple[int, ...] = (),
    holding: tuple[StorePartition, ...] = (),
    opening: tuple[int, ...] = (),
    topic_partitions: int | None = None,
    **placed: Any,
) -> InstanceContext:
    """Instance b1 with view ORDERS; `active[partition]` is an index of `members`."""
    opened = PartitionRegistry((ORDERS,))
    for each in holding:
        opened.add(each)
    topic_metadata = (
        None if topic_partitions is None else SimpleNamespace(partitions=topic_partitions)
    )
    made = context_with(
        Settings(instance_id="b1", host="127.0.0.1", port=1),
        [ORDERS],
        store_partitions=opened,
        metadata_poller=SimpleNamespace(get=lambda topic: topic_metadata, latest={}, alive=True),
        ingest_loop=SimpleNamespace(
            opening=lambda: {(ORDERS.name, partition): "active" for partition in opening},
            rebuilds=2,
            alive=True,
        ),
        snapshot_fetcher=SimpleNamespace(under_way=dict),
        member=SimpleNamespace(alive=True),
    )
    if members:
        view = PlacedView(ORDERS.description(), placed.pop("hash", ORDERS.hash), active, **placed)
        made.group.topology = Topology(EPOCH, members, {ORDERS.name: view})
        made.group.set_state(RUNNING)
    return made
