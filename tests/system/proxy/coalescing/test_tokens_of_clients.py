"""Reads with mixed tokens through nginx and a real backend: each answer is that of its own key and
token."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import uvloop
from a2wsgi import WSGIMiddleware

from backend.http.router import Router
from backend.server.connection import Connection
from backend.server.server import Server
from backend.storage.data_directory import DataDirectory
from model.topology import Epoch, Member, PlacedView, Topology
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import Instance, context
from tests.support.in_process.pages import flask_pages
from tests.support.in_process.tokens import access_control, token
from tests.support.nginx import Nginx
from tests.support.running_server import LIMITS, TIMEOUT

PRICES = view(name="prices", path="/prices")
KEYS = [f"k{n}" for n in range(50)]
CLIENTS, READS = 32, 60

ORDERS_TOKEN, PRICES_TOKEN, ANY_VIEW = (
    token(scope) for scope in ("read:orders", "read:prices", "read:*")
)
# views that the token of a client may read; None: it is not a valid token
READABLE: dict[str, tuple[str, ...] | None] = {
    "": None,
    ORDERS_TOKEN: ("orders",),
    PRICES_TOKEN: ("prices",),
    ANY_VIEW: ("orders", "prices"),
    **{token("read:orders", sub=f"client {n}"): ("orders",) for n in range(30)},
    token("admin"): (),
    token("read:*", key=b"another secret, which is also long enough"): None,
    token("read:*", seconds=-60): None,
    ORDERS_TOKEN[:-2]: None,
}


class Application(Router):
    """A router with the limits that the server reads."""

    request_timeout = send_timeout = 30.0

    def drain(self) -> Any:
        return 0.0


@contextmanager
def served(instance: Instance) -> Iterator[int]:
    """A real server in a thread; yields its port."""
    ports: list[int] = []
    has_started = threading.Event()
    loop = uvloop.new_event_loop()
    stopped = asyncio.Event()

    async def serve() -> None:
        access = access_control(is_from_cluster=lambda request: request.raw_path == b"/processors")
        pages: Any = WSGIMiddleware(flask_pages(instance.context))  # type: ignore[arg-type]
        application = Application(instance.context, pages, access)
        server = Server(application, LIMITS, loop)
        listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0)
        ports.append(listener.sockets[0].getsockname()[1])
        member = Member("b1", "127.0.0.1", ports[0])
        placed = {of.name: PlacedView(of.description(), of.hash, (0,)) for of in (ORDERS, PRICES)}
        instance.context.group.apply_topology(Topology(Epoch(5, 1), (member,), placed))
        application.start()
        has_started.set()
        await stopped.wait()
        listener.close()
        for connection in list(server.connections):
            connection.abort()
        await application.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert has_started.wait(TIMEOUT)
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    data = DataDirectory(tmp_path_factory.mktemp("data"))
    instance = Instance(data, ORDERS)
    instance.context = context([ORDERS, PRICES])
    for of in (ORDERS, PRICES):
        instance.view = of
        entries = {key.encode(): json.dumps([of.name, key]).encode() for key in KEYS}
        instance.hold(0, entries).progress.end_fetched(len(entries), time.monotonic())
    patient = {"QUERYABLE_PROXY_READ_TIMEOUT": "10"}
    with served(instance) as port:
        prefix = tmp_path_factory.mktemp("nginx")
        with Nginx(prefix, f"127.0.0.1:{port}", patient, 1) as nginx:
            nginx.wait_for_map("5-1")
            yield nginx
            log = (prefix / "logs" / "access.log").read_text() + nginx.error_log()
            assert not any(sent in log for sent in READABLE if sent)
    instance.close()
    data.close()


def expected(sent: str, name: str, key: str) -> tuple[int, object]:
    """The status, and the value or the code of the problem."""
    readable = READABLE[sent]
    if readable is None:
        return 401, "unauthenticated"
    if name not in readable:
        return 403, "forbidden"
    return (200, [name, key]) if key in KEYS else (404, "key-not-found")


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, sent: str
) -> tuple[int, object]:
    header = f"Authorization: Bearer {sent}\r\n" if sent else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: t\r\n{header}\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    body = json.loads(await reader.readexactly(int(head.split("content-length: ")[1].split()[0])))
    return int(head.split()[1]), body.get("value", body.get("code"))


async def read(port: int, seed: int) -> Counter[int]:
    """One client; returns how often it got each status."""
    drawn, statuses = random.Random(seed), Counter[int]()
    # most clients have one token, the others are proxies of many clients
    own = drawn.choice(list(READABLE)) if seed % 4 else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        for _ in range(READS):
            sent = drawn.choice(list(READABLE)) if own is None else own
            name, key = drawn.choice(["orders", "prices"]), drawn.choice([*KEYS, "nobody"])
            path = drawn.choice([f"/{name}/{key}", f"/views/{name}/keys/{key}"])
            answer = await asyncio.wait_for(exchange(reader, writer, path, sent), TIMEOUT)
            assert answer == expected(sent, name, key), (path, sent)
            statuses[answer[0]] += 1
    return statuses


def test_each_answer_is_that_of_its_own_key_and_token(nginx: Nginx) -> None:
    async def crowd() -> Counter[int]:
        found = await asyncio.gather(*[read(nginx.port, seed) for seed in range(CLIENTS)])
        return sum(found, Counter[int]())

    statuses = asyncio.run(crowd())
    assert statuses.total() == CLIENTS * READS
    assert set(statuses) == {200, 401, 403, 404}
    entries = nginx.access_log(CLIENTS * READS)
    in_batches = [entry for entry in entries if entry["batch"] is not None]
    assert {entry["status"] for entry in in_batches} == {200, 404}
    answered = statuses[200] + statuses[404]
    assert len(in_batches) > 0.8 * answered
    assert max(entry["batch"] for entry in in_batches) > 8
