"""After its first batch on a connection, a proxy signs with the connection's key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.http.router import Router
from backend.security.cluster import KEYED, ClusterAccess, Refused
from backend.security.cluster_secret import ClusterSecret
from backend.security.connection_key import ConnectionKey
from backend.security.signatures import Purpose
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPost, plain_reads
from backend.wire.point_batch import READS
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.requests import posted, router_of
from tests.support.point_batch import encode_keys
from tests.support.security.cluster_secret import (
    OTHER_SECRET,
    SECRET,
    ProxyConnection,
    cluster_secret,
    write_secrets,
)

BODY = encode_keys(ORDERS, [b"a"])


class Receiver:
    """A backend's side of a connection."""

    def __init__(self, access: ClusterAccess) -> None:
        self.key = ConnectionKey()
        self._access = access

    def accepts(self, signature: bytes, body: bytes = BODY, on_arrival: bool = True) -> bool:
        """Whether it accepts a batch: on arrival, or before its body is read."""
        if on_arrival and self.key.is_next(signature, body):
            return True
        readers = Purpose.PROXY, Purpose.PEER
        try:
            sender = self._access.admit(
                readers, "POST", READS, signature, "10.0.0.1", connection=self.key
            )
            assert sender is not None
            sender.check_body(body)
        except Refused:
            return False
        return True


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> ClusterSecret:
    return cluster_secret(tmp_path_factory.mktemp("secret"))


def begun(secret: ClusterSecret) -> tuple[ProxyConnection, Receiver]:
    """Both sides after the first batch."""
    proxy, receiver = ProxyConnection(secret), Receiver(ClusterAccess(secret, "b1"))
    assert receiver.accepts(proxy.signature(BODY))
    proxy.begin()
    return proxy, receiver


@given(st.lists(st.tuples(st.binary(max_size=300), st.booleans()), max_size=20))
def test_each_batch_is_accepted_once_and_in_order(
    secret: ClusterSecret, batches: list[tuple[bytes, bool]]
) -> None:
    proxy, receiver = begun(secret)
    for body, on_arrival in batches:
        signature = proxy.signature(body)
        assert len(signature) == 32
        assert receiver.accepts(signature, body, on_arrival)
    assert not receiver.accepts(proxy.signature(b"skipped")[:-1] + b"g")
    assert not receiver.accepts(proxy.signature(BODY)), "the key has ended"


@pytest.mark.parametrize("on_arrival", [True, False])
@pytest.mark.parametrize("forged", ["again", "later", "other body", "other connection", "garbage"])
def test_any_other_batch_ends_the_key(secret: ClusterSecret, forged: str, on_arrival: bool) -> None:
    proxy, receiver = begun(secret)
    first = proxy.signature(BODY)
    assert receiver.accepts(first, BODY, on_arrival)
    body = BODY + b"b" if forged == "other body" else BODY
    signature = {
        "again": lambda: first,
        "later": lambda: [proxy.signature(BODY) for _ in range(2)][1],
        "other body": lambda: proxy.signature(BODY),
        "other connection": lambda: begun(secret)[0].signature(BODY),
        "garbage": lambda: b"\xff" * 32,
    }[forged]()
    assert not receiver.accepts(signature, body, on_arrival)
    assert not receiver.accepts(proxy.signature(BODY), BODY, on_arrival)
    proxy.end()
    assert receiver.accepts(proxy.signature(BODY)), "a complete signature begins another key"
    proxy.begin()
    assert receiver.accepts(proxy.signature(BODY), BODY, on_arrival)


@pytest.mark.parametrize("on_arrival", [True, False])
def test_a_key_ends_with_its_secret(tmp_path: Path, on_arrival: bool) -> None:
    now = [0.0]
    path = write_secrets(tmp_path / "secret", SECRET)
    secret = ClusterSecret(path, "queryable-topics", lambda: now[0])
    proxy, receiver = begun(secret)
    write_secrets(path, OTHER_SECRET, SECRET)
    now[0] += 10
    assert receiver.accepts(proxy.signature(BODY), BODY, on_arrival), "both secrets are valid"
    write_secrets(path, OTHER_SECRET)
    now[0] += 10
    assert not receiver.accepts(proxy.signature(BODY), BODY, on_arrival)
    proxy.end()
    assert receiver.accepts(proxy.signature(BODY))
    proxy.begin(OTHER_SECRET)
    assert receiver.accepts(proxy.signature(BODY), BODY, on_arrival)


def test_a_connection_has_no_key_before_a_proxys_signature(
    secret: ClusterSecret, tmp_path: Path
) -> None:
    access = ClusterAccess(secret, "b1")
    for purpose, of in (
        (Purpose.PEER, secret),
        (Purpose.PROXY, cluster_secret(tmp_path, "x" * 40)),
    ):
        proxy, receiver = ProxyConnection(of, purpose), Receiver(access)
        assert receiver.accepts(proxy.signature(BODY)) is (purpose is Purpose.PEER)
        proxy.begin()
        assert not receiver.accepts(proxy.signature(BODY))
    proxy, receiver = begun(secret)
    proxy.begin(OTHER_SECRET)
    assert not receiver.accepts(proxy.signature(BODY))


def test_a_key_opens_no_route_but_that_of_reads(secret: ClusterSecret) -> None:
    router, key = router_of(secret), ConnectionKey()
    for route in router.routes:
        if not route.is_internal or route.pattern == READS.decode():
            continue
        proxy = ProxyConnection(secret)
        assert routed(router, proxy.signature(BODY), key).status == 200
        proxy.begin()
        refused = routed(router, proxy.signature(BODY), key, route.pattern)
        assert refused.status == 403, route.pattern
        proxy.end()


def routed(
    router: Router, signature: bytes, key: ConnectionKey | None, path: str = READS.decode()
) -> Answer:
    """What the router answers to a batch that was not answered on arrival."""
    return posted(router, path, BODY, signature, "10.0.0.1", key=key)


def test_the_answer_says_that_the_connection_has_a_key(secret: ClusterSecret) -> None:
    router, proxy, key = router_of(secret), ProxyConnection(secret), ConnectionKey()

    def on_arrival(signature: bytes, key: ConnectionKey | None) -> Answer:
        answer = router.fast_path.reads_now(PlainPost(signature, BODY), "10.0.0.1", False, key)
        assert answer is not None
        return answer

    for answer in (
        on_arrival(proxy.signature(BODY), key),
        routed(router, proxy.signature(BODY), key),
    ):
        assert (answer.status, answer.headers.count(KEYED)) == (200, 1)
    proxy.begin()
    for answer in (
        on_arrival(proxy.signature(BODY), key),
        routed(router, proxy.signature(BODY), key),
        on_arrival(proxy.signature(BODY), key),
    ):
        assert (answer.status, KEYED in answer.headers) == (200, False), "only when it begins"
    proxy.end()
    for answer in (
        on_arrival(proxy.signature(BODY), None),
        routed(router, proxy.signature(BODY), None),
    ):
        assert (answer.status, KEYED in answer.headers) == (200, False), "another server"
    peer = ProxyConnection(secret, Purpose.PEER)
    assert KEYED not in on_arrival(peer.signature(BODY), ConnectionKey()).headers


@pytest.mark.parametrize("size", [31, 32, 33, 64])
def test_a_batch_is_recognised_with_any_signature(size: int) -> None:
    """Its head is remembered up to a signature of 32 characters."""
    head = b"POST /internal/reads HTTP/1.1\r\nHost: b1:%d\r\nQueryable-Signature: " % size
    for letter in (b"a", b"b"):
        signature = letter * size
        for body in (b"one", b"another body", b"a\r\n\r\nb 3"):
            length = b"\r\nContent-Length: %d\r\n\r\n" % len(body)
            assert plain_reads(head + signature + length + body) == (signature, body)
            assert plain_reads(head + signature + length + body[1:]) is None
            assert plain_reads(head + signature + length + body + b"a") is None
            other = b"\r\nX-Forwarded-For: a" + length
            assert plain_reads(head + signature + other + body) is None
            assert plain_reads(head + signature + length.replace(b"-L", b"_L") + body) is None
