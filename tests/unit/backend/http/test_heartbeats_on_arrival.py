"""A heartbeat is answered as its bytes arrive, in the same way as by the router."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from backend.cluster.heartbeats import PATH
from backend.cluster.liveness import DRAINING, Heartbeat
from backend.http.asgi import Message
from backend.http.router import Router
from backend.security.cluster import ClusterAccess
from backend.security.cluster_secret import ClusterSecret
from backend.security.signatures import HEADER, Purpose, Signer
from backend.telemetry.latencies import Labels
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPost, plain_heartbeat
from model.topology import Epoch, Member, PlacedView, Topology
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import ME, context
from tests.support.in_process.requests import LOOPBACK
from tests.support.security.cluster_secret import OTHER_SECRET, cluster_secret

OTHER = Member("b2", "127.0.0.1", 8082)
REQUEST = (
    b"POST /internal/heartbeat HTTP/1.1\r\nHost: 127.0.0.1:8081\r\n"
    b"queryable-forwarded: b2\r\nContent-Length: 2\r\n\r\n{}"
)


def body(receiver: str = "b1", at: int = 7, group: str | None = None) -> bytes:
    group = context().group.group_id if group is None else group
    return Heartbeat(group, "b2", receiver, DRAINING, at).encode()


class Served:
    """Instance b1, which shares partitions with b2."""

    def __init__(self, secret: ClusterSecret | None = None) -> None:
        self.context = context()
        if secret is not None:
            self.context.cluster = ClusterAccess(secret, "b1")
        placed = PlacedView(ORDERS.description(), ORDERS.hash, (0,), standbys=((1,),))
        self.context.group.apply_topology(Topology(Epoch(5, 1), (ME, OTHER), {"orders": placed}))
        self.context.group.peers.keep(["b2"])
        self.router = Router(self.context, cast(Any, None))
        self.loop = asyncio.new_event_loop()

    def now(self, post: PlainPost, client: str = LOOPBACK, has_certificate: bool = False) -> Answer:
        return self.router.fast_path.heartbeat_now(post, client, has_certificate)

    def by_router(self, post: PlainPost) -> Answer:
        """Without the headers that the server adds."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": post.body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [] if post.signature is None else [(HEADER, post.signature)]
        scope = {
            "type": "http", "method": "POST", "raw_path": PATH, "path": PATH.decode(),
            "query_string": b"", "headers": headers, "client": (LOOPBACK, 1),
        }  # fmt: skip
        self.loop.run_until_complete(self.router(scope, receive, send))
        return Answer(sent[0]["status"], sent[0]["headers"], sent[1]["body"])

    def close(self) -> None:
        self.loop.run_until_complete(self.router.stop())
        self.loop.close()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.close()


@pytest.fixture
def signed(tmp_path: Path) -> Iterator[Served]:
    made = Served(cluster_secret(tmp_path))
    yield made
    made.close()


def test_only_the_request_of_an_instance_is_recognised() -> None:
    assert plain_heartbeat(REQUEST) == PlainPost(None, b"{}")
    for other in (
        REQUEST[:-1], REQUEST + b"x", REQUEST + REQUEST, REQUEST.replace(b"POST", b"GET"),
        REQUEST.replace(b"heartbeat", b"heartbeat?x"), REQUEST.replace(b": 2", b": 2, 2"),
        REQUEST.replace(b"Host: 127.0.0.1:8081\r\n", b""),
        REQUEST.replace(b"Content-Length", b"X-Forwarded-For: 1\r\nContent-Length"),
        REQUEST.replace(b"queryable-forwarded", b"queryable-final-status"),
        REQUEST.replace(b": 2\r", b": 99999\r"),
    ):  # fmt: skip
        assert plain_heartbeat(other) is None


@pytest.mark.parametrize(
    "sent", [body(), body("b9"), body(group="another"), b"", b"nonsense", b"{}", b"[1,2,3,4,5]"]
)
def test_the_answer_is_that_of_the_router(served: Served, sent: bytes) -> None:
    answer, expected = served.now(PlainPost(None, sent)), served.by_router(PlainPost(None, sent))
    assert (answer.status, answer.body) == (expected.status, expected.body)
    assert dict(answer.headers) == dict(expected.headers)
    assert answer.status == (200 if sent == body() else 403)
    assert (served.context.group.peers.states() == {"b2": DRAINING}) == (sent == body())


def test_heartbeats_are_counted_as_by_the_router(served: Served) -> None:
    def counted() -> dict[Labels, int]:
        return {
            labels: sum(counts) for labels, counts, _ in served.context.telemetry.latencies.all()
        }

    async def arrive() -> None:
        served.router.fast_path.start()
        served.now(PlainPost(None, body(at=8)))
        await asyncio.sleep(0)

    served.by_router(PlainPost(None, body()))
    assert counted() == {Labels("internal/heartbeat", status=200): 1}
    served.loop.run_until_complete(arrive())
    assert counted() == {Labels("internal/heartbeat", status=200): 2}


def test_with_a_secret_the_heartbeat_and_its_answer_are_signed(
    signed: Served, tmp_path: Path
) -> None:
    own = Signer(cluster_secret(tmp_path))
    sent = own.sign("POST", PATH, "b1", body())
    answer = signed.now(PlainPost(sent.header, body()), "10.0.0.1")
    assert sent.is_answer(answer.status, answer.body, dict(answer.headers)[HEADER])
    assert (answer.status, signed.context.group.peers.states()) == (200, {"b2": DRAINING})
    (tmp_path / "foreign").mkdir()
    foreign = Signer(cluster_secret(tmp_path / "foreign", OTHER_SECRET))
    signed.context.group.peers.heard("b2", "running")
    wrong = [
        sent.header,  # used before
        None,
        b"nonsense",
        foreign.sign("POST", PATH, "b1", body()).header,
        own.sign("POST", PATH, "b2", body()).header,
        own.sign("POST", PATH, "b1", b"another body").header,
        own.sign("POST", b"/internal/reads", "b1", body()).header,
        Signer(cluster_secret(tmp_path), Purpose.PROXY).sign("POST", PATH, "b1", body()).header,
    ]
    for header in wrong:
        refused = signed.now(PlainPost(header, body()))
        assert orjson.loads(refused.body)["code"] == "not-a-member"
    assert signed.context.group.peers.states() == {"b2": "running"}
    assert signed.now(PlainPost(None, body()), "10.0.0.1", has_certificate=True).status == 200


def test_without_a_secret_others_are_refused(served: Served) -> None:
    for client in ("10.0.0.1", ""):
        refused = served.now(PlainPost(None, body()), client)
        assert orjson.loads(refused.body)["code"] == "not-a-member"
