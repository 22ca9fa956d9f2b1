"""Streams, forwards and heartbeats do not wait for one another. Answers have a maximum size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from backend.cluster import peer_client as forwarding
from backend.cluster.heartbeats import PATH as HEARTBEAT
from backend.cluster.liveness import DEAD, RUNNING, Heartbeat
from backend.cluster.peer_client import PeerClient
from backend.http.parameters import changes_parameters, point_parameters, span_parameters
from backend.http.router import Router
from backend.http.streams import Streams
from backend.queries.retry import Asker, Turn
from model.problems import BadRequest, Unavailable
from model.topology import Epoch, Member, PlacedView, Topology
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import ME, context


@asynccontextmanager
async def peer(
    heartbeat: Callable[[bytes], bytes] = lambda body: body,
    on_hung: Callable[[], None] = lambda: None,
) -> AsyncIterator[Member]:
    """A fake instance. Its `/stream` never ends, its `/hung` never begins."""
    ends = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b": open\n\n")
        await ends.wait()
        return response

    async def hung(_: web.Request) -> web.Response:
        on_hung()
        await ends.wait()
        return web.Response()

    async def large(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if request.query_string:
            response.content_length = 5000
        await response.prepare(request)
        if request.method != "HEAD":
            await response.write(bytes(5000))
        return response

    async def beat(request: web.Request) -> web.Response:
        return web.Response(body=heartbeat(await request.read()))

    async def answered(_: web.Request) -> web.Response:
        return web.Response(body=b"here")

    app = web.Application()
    for path, handler in (("/stream", stream), ("/hung", hung), ("/large", large), ("/", answered)):
        app.router.add_get(path, handler)
    app.router.add_post(HEARTBEAT.decode(), beat)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    host, port = runner.addresses[0]
    try:
        yield Member("b2", host, port)
    finally:
        ends.set()
        await runner.cleanup()


def run(test: Callable[[Member], Awaitable[None]]) -> None:
    async def with_peer() -> None:
        async with peer() as member:
            await test(member)

    asyncio.run(with_peer())


def test_forwards_do_not_wait_for_streams() -> None:
    """Regression: with as many streams as connections, each forward got 503."""

    async def test(member: Member) -> None:
        peer_client = PeerClient("b1", timeout=5.0, connections=2, streams=3)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(peer_client.close)
            for _ in range(3):
                of, chunks = await stack.enter_async_context(
                    peer_client.stream(member, b"/stream", [])
                )
                assert (of.status, await anext(chunks)) == (200, b": open\n\n")
            assert (await peer_client.forward(member, "GET", b"/", [])).body == b"here"

    run(test)


@pytest.mark.slow
@pytest.mark.parametrize("path", [b"/hung", b"/stream"])
@pytest.mark.parametrize(("of_all", "of_this"), [(0.2, None), (60.0, 0.2)])
def test_a_stream_that_does_not_begin_in_time_is_refused(
    path: bytes, of_all: float, of_this: float | None
) -> None:
    """The owner is silent, or no connection is free."""

    async def test(member: Member) -> None:
        peer_client = PeerClient("b1", timeout=of_all, streams=1)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(peer_client.close)
            if path == b"/stream":
                await stack.enter_async_context(peer_client.stream(member, path, [], 10))
            with pytest.raises(Unavailable) as error:
                async with asyncio.timeout(10):
                    await stack.enter_async_context(peer_client.stream(member, path, [], of_this))
            assert error.value.code == "owner-unreachable"

    run(test)


@pytest.mark.parametrize("target", [b"/large", b"/large?with-length"])
def test_an_answer_that_is_too_large_is_refused(
    target: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(member: Member) -> None:
        peer_client = PeerClient("b1", timeout=5.0)
        try:
            assert len((await peer_client.forward(member, "GET", target, [])).body) == 5000
            monkeypatch.setattr(forwarding, "MAX_ANSWER_BYTES", 4999)
            with pytest.raises(Unavailable):
                await peer_client.forward(member, "GET", target, [])
            assert (await peer_client.forward(member, "HEAD", target, [])).status == 200
        finally:
            await peer_client.close()

    run(test)


def answered(body: bytes) -> bytes:
    heard = Heartbeat.decode(body)
    assert heard is not None
    return Heartbeat(heard.group, heard.receiver, heard.sender, RUNNING, heard.at).encode()


def test_heartbeats_do_not_wait_for_forwards() -> None:
    """Regression: an instance with 256 forwards in progress considered all others dead."""

    async def test() -> None:
        connected = asyncio.Semaphore(0)
        async with peer(answered, connected.release) as member:
            here = context(forward_timeout=60)
            shell = Router(here, None)  # type: ignore[arg-type]
            placed = PlacedView(ORDERS.description(), ORDERS.hash, (0,), standbys=((1,),))
            views = {ORDERS.name: placed}
            here.group.apply_topology(Topology(Epoch(5, 1), (ME, member), views))

            async def hang(peer_client: PeerClient) -> None:
                while True:
                    with suppress(Unavailable):  # a loaded machine connects late
                        await peer_client.forward(member, "GET", b"/hung", [])

            hung = [asyncio.create_task(hang(shell._peer_client)) for _ in range(300)]
            try:
                for _ in range(64):  # all of the pool that are for this instance
                    await asyncio.wait_for(connected.acquire(), 20)
                shell._heartbeats.beat()
                here.group.peers.missed(member.id)
                for _ in range(3):
                    here.group.peers.missed(member.id)
                assert here.group.peers.states() == {member.id: DEAD}
                async with asyncio.timeout(10):
                    while here.group.peers.states() != {member.id: RUNNING}:
                        await asyncio.sleep(0.01)
                        shell._heartbeats.beat()
            finally:
                for task in hung:
                    task.cancel()
                await asyncio.gather(*hung, return_exceptions=True)
                await shell.stop()

    asyncio.run(test())


def test_forwards_do_not_wait_for_those_to_another_instance_that_hangs() -> None:
    """Regression: it used up the connections for all instances, which then seemed to fail."""

    async def test() -> None:
        async with peer() as hung, peer() as other:
            here, other = context(), replace(other, id="b3")
            peer_client = PeerClient("b1", timeout=5.0, connections=8)
            asker = Asker(here, peer_client)
            waiting = [
                asyncio.create_task(peer_client.forward(hung, "GET", b"/hung", []))
                for _ in range(8)
            ]
            try:
                await asyncio.sleep(0.1)
                for _ in range(4):
                    answer = await asker.ask(Turn(other, True), "GET", b"/", [])
                    assert answer.body == b"here"
                assert not here.group.peers.is_suspect("b3")
            finally:
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
                await peer_client.close()

    asyncio.run(test())


@pytest.mark.slow
def test_an_instance_that_was_not_asked_has_not_failed() -> None:
    """No connection became free in time. One that was asked, and is silent, has failed."""

    async def test(member: Member) -> None:
        here = context()
        peer_client = PeerClient("b1", timeout=20.0, connections=1)
        asker = Asker(here, peer_client)
        hung = asyncio.create_task(peer_client.forward(member, "GET", b"/hung", []))
        try:
            await asyncio.sleep(0.1)
            with pytest.raises(Unavailable, match="no connection to it was free"):
                await asker.ask(Turn(member, True), "GET", b"/", [])
            assert not here.group.peers.is_suspect("b2")
            hung.cancel()
            await asyncio.gather(hung, return_exceptions=True)
            with pytest.raises(Unavailable):
                await asker.ask(Turn(member, True), "GET", b"/hung", [])
            assert here.group.peers.is_suspect("b2")
        finally:
            await peer_client.close()

    run(test)


@pytest.mark.slow
def test_no_request_waits_for_longer_than_its_query_has_left() -> None:
    """The last one that is asked has the configured time else."""

    async def test(member: Member) -> None:
        here = context()
        peer_client = PeerClient("b1", timeout=60.0)
        asker = Asker(here, peer_client)
        try:
            for others_left in (False, True):
                turn = Turn(member, others_left, time.monotonic() + 0.2)
                async with asyncio.timeout(10):
                    with pytest.raises(Unavailable):
                        await asker.ask(turn, "GET", b"/hung", [])
                    with pytest.raises(Unavailable):
                        async with peer_client.stream(member, b"/hung", [], within=turn.left):
                            pass
            assert here.group.peers.is_suspect("b2")
        finally:
            await peer_client.close()

    run(test)


def test_a_stream_counts_while_it_is_being_opened() -> None:
    streams = Streams(1)
    with streams.place():
        with pytest.raises(Unavailable) as error, streams.place():
            pass
        assert error.value.code == "overloaded"
    with streams.place():
        pass
    streams.end()
    with pytest.raises(Unavailable) as error, streams.place():
        pass
    assert error.value.code == "draining"


ENCODINGS = [b"encoding=base64ur%6c", b"%65ncoding=base64url", b"encoding=b%61se64%75r%6C&"]


@pytest.mark.parametrize("query", ENCODINGS)
def test_names_and_values_of_parameters_are_percent_decoded(query: bytes) -> None:
    """nginx parses them the same way, to compute the key's partition."""
    assert changes_parameters(query)[0]
    assert point_parameters(query, False)[0]
    assert span_parameters(query)[0]


@pytest.mark.parametrize(
    "query", [b"encoding=base64ur", b"encoding=", b"encoding=base64url%00", b"encoding=base64url+",
              b"encoding=text&%65ncoding=base64url", b"encoding=%zz"],
)  # fmt: skip
def test_a_wrong_encoding_is_refused(query: bytes) -> None:
    for parse in (changes_parameters, span_parameters, lambda of: point_parameters(of, True)):
        with pytest.raises(BadRequest):
            parse(query)


@pytest.mark.parametrize(
    "target", [b"/k", b"/a%2Fb?x=%23", b"//a/../b/", b"/a;b@c:1/?x?y=[1]", b"/%zz", b'/"<>\\^`{|}']
)
def test_a_target_is_sent_as_it_is(target: bytes) -> None:
    """Regression: a fragment was left out, so that the other instance read another key."""
    received: list[bytes] = []

    class Peer(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            received.append(data.partition(b"\r\n")[0])
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def ask() -> None:
        server = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0)
        member = Member("b2", *server.sockets[0].getsockname())
        client = PeerClient("b1", 5)
        try:
            await client.forward(member, "GET", target, [])
            with pytest.raises(ValueError, match="fragment"):
                await client.forward(member, "GET", target + b"#x", [])
        finally:
            await client.close()
            server.close()

    asyncio.run(ask())
    assert received == [b"GET %b HTTP/1.1" % target]


@pytest.mark.parametrize("host", ["b1..example", "b" * 64, "b1:8081", "[b1:8081]"])
def test_an_instance_whose_host_is_none_is_unavailable(host: str) -> None:
    """It has advertised a wrong one. Others can answer its reads, and it misses heartbeats."""

    async def check() -> None:
        client = PeerClient("b2", 2.0)
        member = Member("b1", host, 8081)
        try:
            with pytest.raises(Unavailable):
                await client.forward(member, "GET", b"/views/orders/keys/a", [])
            with pytest.raises(Unavailable):
                await client.post(member, HEARTBEAT, b"")
            with pytest.raises(Unavailable):
                async with client.stream(member, b"/views/orders", []):
                    pass
        finally:
            await client.close()

    asyncio.run(check())
