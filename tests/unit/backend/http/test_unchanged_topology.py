"""A proxy that has the latest topology gets 304 without a parser, a task and Flask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.http.router import Router
from backend.instance.context import InstanceContext
from backend.security.cluster import ClusterAccess
from backend.security.signatures import Purpose, Signer
from backend.wire.plain_requests import PlainPoll, plain_poll
from model.topology import Epoch, Member, PlacedView, Topology
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import context
from tests.support.in_process.pages import flask_pages
from tests.support.in_process.tokens import access_control
from tests.support.security.cluster_secret import OTHER_SECRET, SECRET, cluster_secret

TARGET = b"/processors"
REQUEST = (
    b"GET /processors HTTP/1.1\r\nHost: 127.0.0.1:8081\r\nAccept: application/json\r\n"
    b'If-None-Match: "5-1.7"\r\n\r\n'
)


def known() -> InstanceContext:
    """An instance with a topology."""
    served = context([ORDERS])
    placed = PlacedView(ORDERS.description(), ORDERS.hash, (0,))
    members = (Member("b1", "127.0.0.1", 8081),)
    served.group.apply_topology(Topology(Epoch(5, 1), members, {"orders": placed}))
    return served


def test_only_the_request_of_the_proxy_is_recognised() -> None:
    assert plain_poll(REQUEST) == PlainPoll(b"127.0.0.1:8081", b'"5-1.7"', None)
    signed = REQUEST[:-2] + b"Queryable-Signature: 12:ab:cd:ef\r\n\r\n"
    assert plain_poll(signed) == PlainPoll(b"127.0.0.1:8081", b'"5-1.7"', b"12:ab:cd:ef")
    for other in (
        REQUEST[:-1], REQUEST + REQUEST, REQUEST.replace(b"GET", b"HEAD"),
        REQUEST.replace(b"/processors", b"/processors?x"), REQUEST.replace(b'"5-1.7"', b"*"),
        REQUEST.replace(b'"5-1.7"', b'W/"5-1.7"'), REQUEST.replace(b'"5-1.7"', b'"a", "5-1.7"'),
        REQUEST.replace(b"json", b"xml"), REQUEST.replace(b"Host: 127.0.0.1:8081\r\n", b""),
        signed.replace(b"12:ab", b"12 ab"), REQUEST[:-2] + b"Authorization: Bearer a\r\n\r\n",
    ):  # fmt: skip
        assert plain_poll(other) is None


def served_etag(served: InstanceContext) -> bytes:
    """The ETag of the page."""
    with flask_pages(served).test_client() as client:
        return client.get("/processors").headers["ETag"].encode()


def test_the_answer_is_that_of_the_page() -> None:
    served = known()
    router = Router(served, None)  # type: ignore[arg-type]
    with flask_pages(served).test_client() as client:
        for state in ("draining", "running"):
            page = client.get("/processors")
            latest = page.headers["ETag"].encode()
            answer = router.fast_path.unchanged_now(PlainPoll(b"h", latest, None), "10.0.0.1")
            assert answer is not None
            expected = client.get("/processors", headers={"if-none-match": latest.decode()})
            assert (answer.status, answer.body) == (expected.status_code, b"") == (304, b"")
            assert expected.data == b""
            assert expected.headers["ETag"].encode() == latest
            named = dict(answer.headers)
            assert named == {b"etag": latest, b"topology-epoch": served.group.epoch_header}
            for other in (b'"5-1.0"', b'"0-0.1"', latest[:-1] + b'0"'):
                assert (
                    router.fast_path.unchanged_now(PlainPoll(b"h", other, None), "10.0.0.1") is None
                )
            served.group.set_state(state)
            # another state: the page must be built before its ETag is known
            assert router.fast_path.unchanged_now(PlainPoll(b"h", latest, None), "10.0.0.1") is None
            changed = client.get("/processors", headers={"if-none-match": latest.decode()})
            assert (changed.status_code, changed.json["processors"][0]["state"]) == (200, state)


def test_the_etag_is_of_the_content() -> None:
    """A proxy spreads requests for the page over the instances, and an instance may restart."""
    first, second = known(), known()
    for served in (first, second):
        served.group.apply_topology(
            replace(
                served.group.topology,
                members=(*served.group.topology.members, Member("b2", "h", 8082)),
            )
        )
    assert served_etag(first) == served_etag(second)
    for served in (first, second):
        served.group.peers.keep(["b2"])
    first.group.peers.heard("b2", "draining")
    second.group.peers.heard("b2", "dead")
    assert first.group.revision == second.group.revision
    assert served_etag(first) != served_etag(second), "as many changes, but other ones"
    second.group.peers.heard("b2", "starting")
    second.group.peers.heard("b2", "draining")
    assert first.group.revision != second.group.revision
    assert served_etag(first) == served_etag(second)
    at_first = served_etag(first)
    first.group.peers.keep([])
    assert served_etag(first) != at_first, "the states of instances are forgotten"


def test_every_change_of_the_page_is_noticed() -> None:
    """What the page is built from, changed one after the other."""
    served = known()
    served.group.apply_topology(
        replace(
            served.group.topology, members=(*served.group.topology.members, Member("b2", "h", 8082))
        )
    )
    served.group.peers.keep(["b2"])
    changes: list[Callable[[], None]] = [
        lambda: served.group.set_state("draining"),
        lambda: served.group.peers.heard("b2", "draining"),
        lambda: served.group.peers.keep([]),
        lambda: served.group.apply_topology(replace(served.group.topology, epoch=Epoch(6, 2))),
        served.group.doubt_versions,
        lambda: served.group.apply_versions({}),
    ]
    router = Router(served, None)  # type: ignore[arg-type]
    for change in changes:
        poll = PlainPoll(b"h", served_etag(served), None)
        assert router.fast_path.unchanged_now(poll, "10.0.0.1") is not None
        change()
        assert router.fast_path.unchanged_now(poll, "10.0.0.1") is None
        # the page decides whether it is another one; from then on its ETag is known
        poll = PlainPoll(b"h", served_etag(served), None)
        assert router.fast_path.unchanged_now(poll, "10.0.0.1") is not None


def test_an_instance_without_a_topology_leaves_it_to_the_page() -> None:
    served = context([ORDERS])
    router = Router(served, None)  # type: ignore[arg-type]
    for etag in (b"", b'""', b'"0-0.0"'):
        assert router.fast_path.unchanged_now(PlainPoll(b"h", etag, None), "127.0.0.1") is None


@pytest.mark.parametrize("has_secret", [False, True])
def test_with_authentication_the_proxy_must_prove_that_it_is_one(
    tmp_path: Path, has_secret: bool
) -> None:
    secret = cluster_secret(tmp_path, SECRET)
    served = known()
    if has_secret:
        served.cluster = ClusterAccess(secret, "b1")
    router = Router(served, None, access_control())  # type: ignore[arg-type]
    etag = served_etag(served)

    def is_answered(signature: bytes | None, has_certificate: bool = False) -> bool:
        poll = PlainPoll(b"h", etag, signature)
        return router.fast_path.unchanged_now(poll, "10.0.0.1", has_certificate) is not None

    own, foreign = Signer(secret, Purpose.PROXY), cluster_secret(tmp_path, OTHER_SECRET)
    signature = own.sign("GET", TARGET, "*").header
    assert is_answered(signature) == has_secret
    assert not is_answered(signature), "a replay"
    assert not is_answered(None)
    assert not is_answered(own.sign("GET", b"/instance", "*").header)
    assert not is_answered(Signer(foreign, Purpose.PROXY).sign("GET", TARGET, "*").header)
    assert is_answered(None, has_certificate=True)
