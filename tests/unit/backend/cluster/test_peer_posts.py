"""Heartbeats and coalesced reads between instances: connections, errors, and what is accepted."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from backend.cluster import peer_connection, peer_posts
from backend.cluster.heartbeats import PATH as HEARTBEAT
from backend.cluster.peer_connection import PeerConnection
from backend.cluster.peer_failures import PeerRefused
from backend.cluster.peer_posts import PeerPosts
from backend.security.cluster import ClusterAccess
from backend.security.signatures import Purpose, Signer
from backend.telemetry.peer_counts import PeerCounts
from backend.wire.answer import Answer
from backend.wire.plain_requests import plain_heartbeat, plain_reads
from backend.wire.point_batch import READS
from model.problems import Unavailable
from model.topology import Member
from tests.support.security.cluster_secret import OTHER_SECRET, cluster_secret


def ok(body: bytes = b"here", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), more, body)


REFUSED = b'HTTP/1.1 403 No\r\nContent-Length: 14\r\n\r\n{"detail":"x"}'


class Served(asyncio.Protocol):
    """A connection of a scripted instance."""

    def __init__(self, of: Scripted) -> None:
        self._of = of
        self.is_closed = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._of.connections.append(self)

    def data_received(self, data: bytes) -> None:
        self._of.requests.append(data)
        self._of.respond(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed.set()

    def send(self, data: bytes) -> None:
        self.transport.write(data)


class Scripted:
    """An instance that calls `respond(connection, request)`."""

    def __init__(self) -> None:
        self.connections: list[Served] = []
        self.requests: list[bytes] = []
        self.respond: Callable[[Served, bytes], None] = lambda connection, _: connection.send(ok())
        self.member = Member("b2", "127.0.0.1", 0)


@asynccontextmanager
async def scripted() -> AsyncIterator[Scripted]:
    made = Scripted()
    server = await asyncio.get_running_loop().create_server(lambda: Served(made), "127.0.0.1", 0)
    made.member = Member("b2", *server.sockets[0].getsockname())
    try:
        yield made
    finally:
        server.close()
        for connection in made.connections:
            connection.transport.abort()


def run(test: Callable[[Scripted, PeerPosts], Awaitable[None]], **options: Any) -> Scripted:
    async def with_peer() -> Scripted:
        async with scripted() as peer:
            posts = PeerPosts("b1", **{"timeout": 10.0, **options})
            try:
                async with asyncio.timeout(30):
                    await test(peer, posts)
            finally:
                await posts.close()
            return peer

    return asyncio.run(with_peer())


def test_each_kind_of_request_has_one_connection_to_an_instance() -> None:
    async def test(peer: Scripted, posts: PeerPosts) -> None:
        for n in range(3):
            for target in (READS, HEARTBEAT):
                answer = await posts.post(peer.member, target, b"%d" % n)
                assert (answer.status, answer.body) == (200, b"here")

    assert len(run(test).connections) == 2


@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize(("target", "parse"), [(READS, plain_reads), (HEARTBEAT, plain_heartbeat)])
def test_an_instance_recognises_the_request_without_a_parser(
    tmp_path: Path, is_signed: bool, target: bytes, parse: Callable[[bytes], Any]
) -> None:
    body = b"x" * 1500
    access = ClusterAccess(cluster_secret(tmp_path), "b2")

    async def test(peer: Scripted, posts: PeerPosts) -> None:
        def respond(connection: Served, data: bytes) -> None:
            found = parse(data)
            assert found is not None, data[:500]
            answer = Answer(200, [], found.body)
            if is_signed:
                sender = access.admit((Purpose.PEER,), "POST", target, found.signature, "")
                assert sender is not None
                sender.check_body(found.body)
                sender.sign(answer)
            lines = b"".join(b"%b: %b\r\n" % header for header in answer.headers)
            connection.send(ok(answer.body, lines))

        peer.respond = respond
        for _ in range(2):
            assert (await posts.post(peer.member, target, body)).body == body

    peer = run(test, signer=Signer(cluster_secret(tmp_path)) if is_signed else None)
    assert len(peer.requests) == 2, "each request arrives in one piece"


def test_only_the_receivers_own_answer_counts(tmp_path: Path) -> None:
    counts = PeerCounts()

    async def test(peer: Scripted, posts: PeerPosts) -> None:
        for wrong in (ok(), ok(more=b"queryable-signature: %b\r\n" % (b"0" * 64))):
            peer.respond = lambda connection, _, wrong=wrong: connection.send(wrong)  # type: ignore[misc]
            with pytest.raises(Unavailable) as error:
                await posts.post(peer.member, READS, b"x")
            assert not isinstance(error.value, PeerRefused)
        peer.respond = lambda connection, _: connection.send(REFUSED)
        with pytest.raises(PeerRefused):
            await posts.post(peer.member, READS, b"x")

    run(test, signer=Signer(cluster_secret(tmp_path, OTHER_SECRET)), counts=counts)
    assert counts.requests == {("internal/reads", "answered"): 3}


def test_an_idle_connection_that_the_instance_has_closed_is_no_failure(tmp_path: Path) -> None:
    """Whether this instance learns of it before it sends, or after. Each attempt has a signature of
    its own, because an instance accepts it once."""

    async def test(peer: Scripted, posts: PeerPosts) -> None:
        def respond(connection: Served, _: bytes) -> None:
            if len(peer.requests) == 2:
                connection.transport.abort()
            else:
                connection.send(REFUSED)

        peer.respond = respond
        for _ in range(2):
            with pytest.raises(PeerRefused):
                await posts.post(peer.member, READS, b"x")
        assert len(set(peer.requests)) == len(peer.requests) == 3
        assert len(peer.connections) == 2
        peer.connections[1].transport.close()
        await peer.connections[1].is_closed.wait()
        with pytest.raises(PeerRefused):
            await posts.post(peer.member, READS, b"x")
        assert len(peer.requests) == 4

    run(test, signer=Signer(cluster_secret(tmp_path)))


def test_a_new_connection_that_the_instance_has_closed_costs_no_time() -> None:
    async def test(peer: Scripted, posts: PeerPosts) -> None:
        loop, closed = asyncio.get_running_loop(), asyncio.Event()
        connection = await peer_connection.connect(peer.member, None, lambda _: closed.set())
        while not peer.connections:
            await asyncio.sleep(0.001)
        peer.connections[0].transport.abort()
        await closed.wait()
        with pytest.raises(peer_connection.ClosedBeforeAnswerError):
            await connection.post(b"x", 60.0, loop.time() + 60)

    run(test)


def test_a_request_is_not_repeated_after_a_part_of_an_answer() -> None:
    async def test(peer: Scripted, posts: PeerPosts) -> None:
        await posts.post(peer.member, READS, b"x")

        def respond(connection: Served, _: bytes) -> None:
            connection.send(ok(b"y" * 100)[:-1])
            connection.transport.close()

        peer.respond = respond
        with pytest.raises(Unavailable, match="ConnectionError"):
            await posts.post(peer.member, READS, b"x")

    assert len(run(test).requests) == 2


def test_an_instance_that_closes_each_connection_is_unavailable() -> None:
    counts = PeerCounts()

    async def test(peer: Scripted, posts: PeerPosts) -> None:
        peer.respond = lambda connection, _: connection.transport.abort()
        with pytest.raises(Unavailable) as error:
            await posts.post(peer.member, READS, b"x")
        assert error.value.code == "owner-unreachable"
        gone = Member("b3", "127.0.0.1", 1)
        with pytest.raises(Unavailable):
            await posts.post(gone, READS, b"x")

    assert len(run(test, counts=counts).requests) == 1
    assert counts.requests == {("internal/reads", "failed"): 2}


def test_nothing_is_kept_of_an_instance_that_is_gone() -> None:
    """Instances may have another address after each restart."""

    async def test(peer: Scripted, posts: PeerPosts) -> None:
        for _ in range(2):
            await posts.post(peer.member, READS, b"x")
        assert kept_connections() == 1
        peer.connections[0].transport.close()
        async with asyncio.timeout(10):
            while kept_connections():
                await asyncio.sleep(0.001)

    run(test)


def kept_connections() -> int:
    gc.collect()
    return sum(isinstance(each, PeerConnection) for each in gc.get_objects())


def test_an_idle_connection_does_not_keep_the_last_answer() -> None:
    async def test(peer: Scripted, posts: PeerPosts) -> None:
        peer.respond = lambda connection, _: connection.send(ok(b"x" * 1_000_000))
        tracemalloc.start()
        try:
            await posts.post(peer.member, READS, b"x")
            await asyncio.sleep(0.01)  # the event loop forgets the future
            gc.collect()
            kept, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert not peer.connections[0].is_closed.is_set()
        assert kept < 500_000 < most

    run(test)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["silence", "cancelled", "endless"])
def test_a_late_answer_is_not_the_one_to_the_next_request(ending: str) -> None:
    """`endless`: bytes arrive all the time, but the answer does not end."""

    async def test(peer: Scripted, posts: PeerPosts) -> None:
        await posts.post(peer.member, READS, b"x")
        late: list[Served] = []

        def respond(connection: Served, _: bytes) -> None:
            late.append(connection)
            if ending == "endless":
                connection.send(b"HTTP/1.1 200 OK\r\n")
                drip(connection)

        def drip(connection: Served) -> None:
            connection.send(b"a: b\r\n")
            asyncio.get_running_loop().call_later(0.02, drip, connection)

        peer.respond = respond
        post = posts.post(peer.member, READS, b"x", 0.2 if ending == "silence" else None)
        if ending == "cancelled":
            task = asyncio.create_task(post)
            while not late:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(Unavailable, match="TimeoutError"):
                await post
        late[0].send(ok(b"late"))
        peer.respond = lambda connection, _: connection.send(ok(b"next"))
        assert (await posts.post(peer.member, READS, b"x")).body == b"next"
        await late[0].is_closed.wait()

    run(test, timeout=0.5 if ending == "endless" else 10.0)


@pytest.mark.slow
def test_silence_counts_from_the_last_byte() -> None:
    """An answer may take longer than the instance may be silent."""

    async def test(peer: Scripted, posts: PeerPosts) -> None:
        def respond(connection: Served, _: bytes) -> None:
            loop, data = asyncio.get_running_loop(), ok(b"x" * 8)
            for n in range(8):
                end = len(data) - 7 + n
                loop.call_later(0.2 * n, connection.send, data[end - 1 if n else 0 : end])

        peer.respond = respond
        assert (await posts.post(peer.member, READS, b"x", 1.0)).body == b"x" * 8

    run(test)


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n", ok().replace(b"1.1", b"1.0"), ok().replace(b"200", b"100"),
        ok().replace(b"Content-Length: 4\r\n", b""), ok().replace(b": 4", b": -4"),
        ok().replace(b": 4", b": 4\r\nContent-Length: 4"), ok().replace(b": 4", b" 4"),
        ok(more=b"Transfer-Encoding: chunked\r\n"), ok() + b"x", ok() + ok(), b"x" * 17_000,
        ok(more=b"a: %b\r\n" % (b"x" * 17_000)), ok().replace(b": 4", b": 134217729"),
        ok().replace(b": 4", b": " + b"9" * 5000),
    ],
)  # fmt: skip
def test_what_is_no_answer_of_an_instance_is_refused(answer: bytes) -> None:
    async def test(peer: Scripted, posts: PeerPosts) -> None:
        peer.respond = lambda connection, _: connection.send(answer)
        with pytest.raises(Unavailable, match="MalformedAnswerError"):
            await posts.post(peer.member, READS, b"x")
        await peer.connections[0].is_closed.wait()

    run(test)


@pytest.mark.parametrize("why", ["close", "unasked", "idle"])
def test_a_connection_that_must_not_be_used_again_is_closed(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """The instance says so, it sends bytes that nobody has asked for, or it was idle for long."""
    if why == "idle":
        monkeypatch.setattr(peer_connection, "IDLE_S", 0.05)

    async def test(peer: Scripted, posts: PeerPosts) -> None:
        more = b"Connection: close\r\n" if why == "close" else b""
        peer.respond = lambda connection, _: connection.send(ok(more=more))
        assert (await posts.post(peer.member, READS, b"x")).body == b"here"
        if why == "unasked":
            peer.connections[0].send(ok(b"unasked"))
        await peer.connections[0].is_closed.wait()
        assert (await posts.post(peer.member, READS, b"x")).body == b"here"

    assert len(run(test).connections) == 2


def test_concurrent_requests_have_connections_of_their_own() -> None:
    async def test(peer: Scripted, posts: PeerPosts) -> None:
        peer.respond = lambda connection, data: connection.send(ok(data[-1:]))
        asked = [posts.post(peer.member, READS, b"%d" % n) for n in range(3)]
        answers = await asyncio.gather(*asked)
        assert [answer.body for answer in answers] == [b"0", b"1", b"2"]
        while sum(connection.is_closed.is_set() for connection in peer.connections) < 2:
            await asyncio.sleep(0.001)
        assert (await posts.post(peer.member, READS, b"3")).body == b"3"
        assert len(peer.connections) == 3, "one is kept"

    run(test)


@pytest.mark.slow
def test_an_instance_to_which_no_connection_opens_is_unavailable_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: Any) -> PeerConnection:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(peer_posts, "connect", never)

    async def test(peer: Scripted, posts: PeerPosts) -> None:
        with pytest.raises(Unavailable, match="TimeoutError"):
            await posts.post(peer.member, READS, b"x")

    assert run(test).connections == []
