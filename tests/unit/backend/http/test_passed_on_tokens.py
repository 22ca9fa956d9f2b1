"""The token of a client goes with each request that an instance sends to another one for it, and is
checked there again. Streams end with it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from backend.cluster.peer_client import PeerClient
from backend.http.access import Access
from backend.http.request import Request
from backend.http.router import Router
from backend.http.streams import Streams
from backend.queries.batch import BATCH_PATH
from backend.queries.scans.scatter_gather import SCAN_PATH
from backend.security.authorization import AUTHORIZATION
from backend.security.identity import Identity
from backend.wire.answer import Answer, Header
from backend.wire.scan import Query
from backend.wire.scan_codec import ENTRIES, ScanRequest, encode_request, pack
from model.topology import Member
from model.views import ANY_PARTITION
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.tokens import Keys, access_control, bearer
from tests.support.in_process.world import NDJSON, World, world

KEYS = [b"key-%d" % n for n in range(8)]  # some are on each of the instances
READER = [bearer("read:orders")]
STRANGER = [bearer("read:others", "metrics", "admin", "append:orders")]


def of_keys(path: str) -> list[tuple[str, str, bytes]]:
    return [("GET", path.format(key.decode()), b"") for key in KEYS]


QUESTIONS: dict[str, list[tuple[str, str, bytes]]] = {
    "point": of_keys("keys/{}"),
    "point of the active": of_keys("keys/{}?stale=never"),
    "search": [("POST", "search", json.dumps({"query": key.decode()}).encode()) for key in KEYS],
    "batch": [("POST", "batch", json.dumps({"keys": [key.decode() for key in KEYS]}).encode())],
    "keys": [("GET", "keys?limit=3", b"")],
    "count": [("GET", "count", b"")],
    "top": [("GET", "top?by=n&limit=2", b"")],
    "aggregate": [("GET", "aggregate?by=n", b"")],
}


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world"), ORDERS, access_control()) as made:
        made.put_all(dict.fromkeys(KEYS, b'{"n":1}'))
        yield made


def statuses(made: World, kind: str, headers: list[Header]) -> set[int]:
    return {
        made.ask(target, method=method, body=body, headers=headers).status
        for method, target, body in QUESTIONS[kind]
    }


@pytest.mark.parametrize("kind", QUESTIONS)
def test_every_hop_has_the_token(orders: World, kind: str) -> None:
    orders.peers.asked.clear()
    assert statuses(orders, kind, READER) == {200}
    assert orders.peers.asked  # the other instance was asked
    assert statuses(orders, kind, STRANGER) == {403}
    assert statuses(orders, kind, []) == {401}


def test_each_key_of_a_batch_is_read(orders: World) -> None:
    """A refused part would be a problem in the item of its key."""
    ((method, target, body),) = QUESTIONS["batch"]
    answer = orders.ask(target, method=method, body=body, headers=READER)
    assert [item["value"] for item in answer.json["items"]] == [{"n": 1}] * len(KEYS)


def test_reads_of_any_partition_have_the_token(tmp_path: Path) -> None:
    anywhere = replace(ORDERS, partitioner=ANY_PARTITION)
    with world(tmp_path, anywhere, access_control()) as made:
        made.put_all(dict.fromkeys(KEYS, b'{"n":1}'), partition=1)
        assert statuses(made, "point", READER) == {200}
        assert statuses(made, "batch", READER) == {200}
        assert {member for member, _ in made.peers.asked} == {"b2"}
        assert statuses(made, "point", STRANGER) == {403}


def internal(made: World, path: bytes, body: bytes, headers: list[Header]) -> int:
    asked = made.request("b2", "POST", path.decode(), body, headers=headers)
    return asyncio.run(asked).status


def test_the_view_in_the_body_is_checked_again(orders: World) -> None:
    scan = ScanRequest(ORDERS.name, ORDERS.hash, 4, ENTRIES, Query(), 10, {})
    for path, body in (
        (SCAN_PATH, encode_request(scan, [1], None)),
        (BATCH_PATH, pack([b"orders", ORDERS.hash.encode(), KEYS[0]])),
        (BATCH_PATH, pack([b"orders?stale=never", ORDERS.hash.encode(), KEYS[0]])),
    ):
        assert internal(orders, path, body, READER) == 200
        assert internal(orders, path, body, STRANGER) == 403
        assert internal(orders, path, body, []) == 401


def test_an_instance_with_other_keys_refuses_a_forwarded_token(tmp_path: Path) -> None:
    """Nothing trusts the instance that forwards."""
    keys = Keys()
    with world(tmp_path, ORDERS, access_control(keys)) as made:
        other = access_control(Keys(b"another secret" * 3))
        of, peers = made.instances["b2"].context, cast(Any, made.peers)
        made.routers["b2"] = Router(of, cast(Any, None), other, peers)
        made.put_all(dict.fromkeys(KEYS, b'{"n":1}'))
        assert statuses(made, "point", READER) == {200, 401}


def test_the_peer_client_sends_the_header_of_the_current_request() -> None:
    received: list[str | None] = []

    async def note(request: web.Request) -> web.Response:
        received.append(request.headers.get("Authorization"))
        return web.Response()

    async def test() -> None:
        app = web.Application()
        app.router.add_get("/", note)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        member = Member("b2", *runner.addresses[0])
        client = PeerClient("b1", timeout=5.0)
        other: list[Header] = [(b"authorization", b"Bearer of-a-client")]
        try:
            await client.forward(member, "GET", b"/", other)
            AUTHORIZATION.set(b"Bearer abc")
            await client.forward(member, "GET", b"/", other)
            async with client.stream(member, b"/", []):
                pass
            await asyncio.create_task(_forward(client, member))
        finally:
            await client.close()
            await runner.cleanup()

    asyncio.run(test())
    assert received == [None, *["Bearer abc"] * 3]


async def _forward(client: PeerClient, member: Member) -> None:
    await client.forward(member, "GET", b"/", [])


# streams


class Stream:
    """A stream whose client stays, and what was sent."""

    def __init__(self, identity: Identity | None) -> None:
        self.sent: list[Any] = []
        self.more = asyncio.Event()
        scope: Any = {"method": "GET", "raw_path": b"/", "query_string": b"", "headers": []}
        self.request = Request(scope, self._receive, self._send, lambda _: [(b"x", b"y")])
        self.request.identity = identity

    async def _receive(self) -> Any:
        await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    async def chunks(self) -> AsyncGenerator[bytes]:
        yield b"first"
        await self.more.wait()
        yield b"second"
        await asyncio.Event().wait()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def test_a_stream_ends_when_its_token_expires() -> None:
    async def test() -> None:
        stream = Stream(Identity("", frozenset(), time.time() + 0.1))
        async with asyncio.timeout(10):
            await Streams(1).run(Answer(200, [], b""), stream.chunks(), stream.request)
        assert stream.body == b"first"
        assert stream.sent[-1] == {"type": "http.response.body", "body": b""}  # a normal end

    asyncio.run(test())


def test_a_stream_sends_nothing_once_its_token_is_revoked() -> None:
    keys = Keys()
    access = access_control(keys)

    async def test() -> None:
        stream = Stream(access.admit(Access.READ, READER, "orders"))
        stream.request.is_admitted = partial(access.still_admits, Access.READ, READER, "orders")
        running = asyncio.create_task(
            Streams(1).run(Answer(200, [], b""), stream.chunks(), stream.request)
        )
        async with asyncio.timeout(10):
            while stream.body != b"first":
                await asyncio.sleep(0)
            keys.rotate(b"another secret" * 3)
            stream.more.set()
            await running
        assert stream.body == b"first"

    asyncio.run(test())


def test_lines_of_a_view_end_early_once_the_token_is_revoked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without an end of the body: the client does not take a part for the whole."""
    keys = Keys()
    with world(tmp_path, ORDERS, access_control(keys)) as made:
        made.put_all({b"key-%05d" % n: b'{"n":"%b"}' % (b"x" * 200) for n in range(4000)})
        whole = made.ask("keys", accept=NDJSON, headers=READER)
        assert (whole.complete, whole.body.count(b"\n")) == (True, 4000)
        part = made.ask(
            "keys", accept=NDJSON, headers=READER,
            on_chunk=lambda: keys.rotate(b"another secret" * 3),
        )  # fmt: skip
        assert (part.status, part.complete) == (200, False)
        assert 0 < part.body.count(b"\n") < 4000
    assert "ends early" in caplog.text
