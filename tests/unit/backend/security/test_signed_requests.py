"""Internal routes, and the requests and answers of instances, with and without a cluster secret."""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from aiohttp import web

from backend.cluster import peer_failures
from backend.cluster.peer_client import PeerClient
from backend.http.access import access_control
from backend.http.router import Router
from backend.queries.turns import INSTANCES, this_client
from backend.security.cluster import ClusterAccess, Sender
from backend.security.cluster_secret import ClusterSecret
from backend.security.signatures import ANY_RECEIVER, HEADER, Purpose, Signer
from backend.storage.data_directory import DataDirectory
from backend.telemetry.rate_limited_log import RateLimitedLog
from backend.wire.answer import Answer
from backend.wire.plain_requests import PlainPost
from backend.wire.point_batch import READS
from backend.wire.snapshot import SnapshotError, file_header, receive
from model.problems import Forbidden, Unavailable
from model.topology import Member
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import context
from tests.support.in_process.requests import posted, router_of
from tests.support.point_batch import encode_keys
from tests.support.security.cluster_secret import cluster_secret
from tests.unit.backend.snapshots import asked as copied
from tests.unit.backend.snapshots import member_of_a_group, question

INTERNAL = ["/internal/reads", "/internal/scan", "/internal/batch", "/internal/heartbeat",
            "/internal/copy", "/internal/topology"]  # fmt: skip


@pytest.fixture
def secret(tmp_path: Path) -> ClusterSecret:
    return cluster_secret(tmp_path)


def code(answer: Answer) -> str:
    assert answer.status == 403
    return str(orjson.loads(answer.body)["code"])


def test_every_internal_route_is_tested() -> None:
    assert {r.pattern for r in router_of(None).routes if r.is_internal} == set(INTERNAL)


@pytest.mark.parametrize("path", INTERNAL)
def test_without_a_secret_internal_routes_answer_on_loopback_only(path: str) -> None:
    router = router_of(None)
    for client in ("10.0.0.1", "", "::ffff:10.0.0.1"):
        refused = posted(router, path, None, client=client)
        assert code(refused) == "not-a-member"
        assert b"QUERYABLE_CLUSTER_SECRET_FILE" in refused.body
    for client in ("127.0.0.1", "::1"):
        answer = posted(router, path, b"{}", client=client)
        assert b"QUERYABLE_CLUSTER_SECRET_FILE" not in answer.body
    reads = PlainPost(None, encode_keys(ORDERS, [b"a"]))
    assert code(router.fast_path.reads_now(reads, "10.0.0.1")) == "not-a-member"
    assert router.fast_path.reads_now(reads, "127.0.0.1").status == 200


@pytest.mark.parametrize("path", INTERNAL)
def test_a_reverse_proxy_on_this_machine_does_not_open_internal_routes(path: str) -> None:
    router = router_of(None)
    for name in ("x-forwarded-for", "forwarded", "via", "x-real-ip", "queryable-final-status"):
        headers = [(name.encode(), b"203.0.113.7")]
        refused = posted(router, path, None, client="127.0.0.1", more=headers)
        assert code(refused) == "not-a-member"


@pytest.mark.parametrize("path", INTERNAL)
def test_with_a_secret_every_request_must_be_signed(path: str, secret: ClusterSecret) -> None:
    router = router_of(secret)
    target = path.encode()

    def signed(purpose: Purpose, receiver: str = "b1", body: bytes = b"{}") -> bytes:
        return Signer(secret, purpose).sign("POST", target, receiver, body).header

    refused = [None, b"", b"nonsense"]
    allowed = [Purpose.PEER]
    if target == READS:
        allowed.append(Purpose.PROXY)
    else:
        refused.append(signed(Purpose.PROXY))
    for purpose in allowed:
        refused += [signed(purpose, "b2"), signed(purpose, "*")]
    for header in refused:
        assert code(posted(router, path, None, header, "127.0.0.1")) == "not-a-member"
    for purpose in allowed:
        header = signed(purpose)
        answer = posted(router, path, b"{}", header, "10.0.0.1")
        assert b"not-a-member" not in answer.body or path == "/internal/heartbeat"
        assert b"used before" in posted(router, path, None, header, "10.0.0.1").body
        assert b"not the one that was signed" in posted(router, path, b"[]", signed(purpose)).body


def test_the_fast_path_checks_signatures(secret: ClusterSecret) -> None:
    router, proxy = router_of(secret), Signer(secret, Purpose.PROXY)
    body = encode_keys(ORDERS, [b"a"])

    def status(header: bytes | None, body: bytes = body) -> int:
        return router.fast_path.reads_now(PlainPost(header, body), "10.0.0.1").status

    header = proxy.sign("POST", READS, "b1", body).header
    assert [status(header), status(header)] == [200, 403]
    assert status(None) == 403
    assert status(proxy.sign("POST", READS, "b2", body).header) == 403
    assert status(proxy.sign("POST", READS, "b1", body).header, body + b"b") == 403
    assert status(Signer(secret).sign("POST", READS, "b1", body).header) == 200, "of an instance"


def test_signatures_of_proxies_do_not_push_out_those_of_instances(
    secret: ClusterSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor refuse them: whoever has a proxy's key must not be able to part the instances."""
    monkeypatch.setattr("backend.security.replay_window._MAX_REMEMBERED", 8)
    monkeypatch.setattr("backend.security.cluster._log", lambda *_: None)
    now = [1_800_000_000.0]
    here = ClusterAccess(secret, "b1", lambda: now[0])
    proxy = Signer(secret, Purpose.PROXY, lambda: now[0] + 29)
    now[0] += 1
    for _ in range(1000):
        header = proxy.sign("POST", b"/internal/reads", "b1").header
        try:
            here.admit((Purpose.PROXY,), "POST", b"/internal/reads", header, "10.0.0.1")
        except Forbidden:
            continue
    peer = Signer(secret, Purpose.PEER, lambda: now[0])
    header = peer.sign("POST", b"/internal/scan", "b1").header
    assert here.admit((Purpose.PEER,), "POST", b"/internal/scan", header, "10.0.0.1") is not None


def test_answers_to_instances_are_signed(secret: ClusterSecret) -> None:
    router = router_of(secret)
    for path in INTERNAL:
        sent = Signer(secret).sign("POST", path.encode(), "b1", b"{}")
        answer = posted(router, path, b"{}", sent.header)
        value = dict(answer.headers)[HEADER]
        assert sent.is_answer(answer.status, answer.body, value), path


def test_the_fast_path_signs_refusals(
    secret: ClusterSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the sender took a 400 or 500 for the answer of another program."""
    router = router_of(secret)

    def refused(body: bytes) -> int:
        sent = Signer(secret).sign("POST", READS, "b1", body)
        answer = router.fast_path.reads_now(PlainPost(sent.header, body), "10.0.0.1")
        assert answer is not None
        value = dict(answer.headers).get(HEADER)
        assert sent.is_answer(answer.status, answer.body, value)
        return answer.status

    def fail(_: bytes) -> Answer:
        raise RuntimeError("a defect")

    assert refused(b"nonsense") == 400
    monkeypatch.setattr(router.fast_path.coalesced, "answer", fail)
    assert refused(encode_keys(ORDERS, [b"a"])) == 500


def test_a_signed_get_opens_routes_that_need_any_scope(secret: ClusterSecret) -> None:
    access = ClusterAccess(secret, "b1")
    for purpose, receiver in ((Purpose.PROXY, "*"), (Purpose.PEER, "b1"), (Purpose.PROXY, "b1")):
        signer = Signer(secret, purpose)
        for target in (b"/processors", b"/instance"):
            header = signer.sign("GET", target, receiver).header
            assert access.is_signed("GET", target, [(HEADER, header)], "10.0.0.1")
            assert not access.is_signed("GET", target, [(HEADER, header)], "10.0.0.1"), "a replay"
        header = signer.sign("GET", b"/processors", receiver).header
        assert not access.is_signed("GET", b"/instance", [(HEADER, header)], "10.0.0.1")
        assert not access.is_signed("GET", b"/processors", [(HEADER, header)] * 2, "10.0.0.1")
    assert not access.is_signed("GET", b"/processors", [], "127.0.0.1")
    assert not ClusterAccess().is_signed("GET", b"/processors", [], "127.0.0.1")


Respond = Callable[[Sender, bytes], web.Response]


def forwarded(secret: ClusterSecret | None, of_peer: ClusterAccess, respond: Respond) -> Answer:
    """What a PeerClient gets from an instance "b2" that answers a scan in this way."""

    async def scan(request: web.Request) -> web.Response:
        body = await request.read()
        given = request.headers.get(HEADER.decode(), "").encode()
        sender = of_peer.admit((Purpose.PEER,), "POST", b"/internal/scan", given, "127.0.0.1")
        if sender is not None:
            sender.check_body(body)
        return respond(cast(Sender, sender), body)

    async def run() -> Answer:
        app = web.Application()
        app.router.add_post("/internal/scan", scan)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        signer = None if secret is None else Signer(secret)
        client = PeerClient("b1", 20.0, signer)
        try:
            member = Member("b2", host, port)
            return await client.forward(member, "POST", b"/internal/scan", [], b"question")
        finally:
            await client.close()
            await runner.cleanup()

    return asyncio.run(run())


def response(sender: Sender | None, body: bytes, status: int = 200) -> web.Response:
    headers = {}
    if sender is not None:
        answer = Answer(status, [], body)
        sender.sign(answer)
        headers = {name.decode(): value.decode() for name, value in answer.headers}
    return web.Response(status=status, body=body, headers=headers)


def test_only_the_receivers_own_answer_counts(
    secret: ClusterSecret, caplog: pytest.LogCaptureFixture
) -> None:
    peer = ClusterAccess(secret, "b2")
    answer = forwarded(secret, peer, lambda sender, body: response(sender, body, 503))
    assert (answer.status, answer.body) == (503, b"question")
    old: list[Sender] = []

    def repeated(sender: Sender, _: bytes) -> web.Response:
        old.append(sender)
        return response(old[0], b"an answer")

    assert forwarded(secret, peer, repeated).body == b"an answer"
    wrong: list[Respond] = [
        repeated,
        lambda _, __: response(None, b"of another program"),
        lambda sender, _: web.Response(body=b"x", headers=response(sender, b"y").headers),
        lambda sender, _: web.Response(status=404, headers=response(sender, b"").headers),
    ]
    for respond in wrong:
        with pytest.raises(Unavailable, match="b2"):
            forwarded(secret, peer, respond)
    assert "without a valid signature" in caplog.text


def test_an_instance_that_refuses_is_named_in_the_log(
    secret: ClusterSecret, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # another test may have logged the same a moment ago
    monkeypatch.setattr(peer_failures, "log", RateLimitedLog(logging.getLogger("peers")))
    problem = orjson.dumps({"detail": "The request is refused: why."})
    for own in (None, secret):
        with pytest.raises(Unavailable):
            forwarded(
                own, ClusterAccess(own, "b2"), lambda *_: web.Response(status=403, body=problem)
            )
    assert "instance b2 refuses requests of this instance: 'The request is refused: why.'" in (
        caplog.text
    )
    assert forwarded(None, ClusterAccess(), lambda *_: web.Response(body=b"a")).body == b"a"


def test_a_copy_that_was_changed_on_its_way_is_refused(
    secret: ClusterSecret, tmp_path: Path
) -> None:
    """Each file has a checksum, which someone in between can compute, too."""
    folder = DataDirectory(tmp_path / "b1")
    instance = member_of_a_group(folder)
    instance.hold(0, {b"a": b"1", b"b": b"2"})
    access = ClusterAccess(secret, "b1")
    sent = Signer(secret).sign("POST", b"/internal/copy", "b1", question())
    sender = access.admit((Purpose.PEER,), "POST", b"/internal/copy", sent.header, "10.0.0.1")
    messages, problem = copied(instance, question(), sender)
    assert problem is None
    stream = b"".join(message.get("body", b"") for message in messages)

    def received(stream: bytes, of: Any = sent) -> int:
        source = io.BytesIO(stream)
        mac = None if of is None else of.answer_mac()
        return receive(source.read, source.readline, lambda _: io.BytesIO(), mac=mac)

    assert received(stream) > 0
    content = b"MANIFEST-000005\n"
    old = file_header("CURRENT", len(content)) + content + hashlib.sha256(content).digest()
    assert old in stream
    content = b"MANIFEST-000001\n"
    new = file_header("CURRENT", len(content)) + content + hashlib.sha256(content).digest()
    assert received(stream.replace(old, new), None) > 0, "without a secret"
    for changed in (
        stream.replace(old, new),
        stream.replace(b'"CURRENT"', b'"current"'),
        stream[: stream.rindex(b"}\n") + 2],
        stream[:-2] + b"\n",
    ):
        with pytest.raises(SnapshotError, match="signature by the cluster secret"):
            received(changed)
    other = Signer(secret).sign("POST", b"/internal/copy", "b1", question())
    with pytest.raises(SnapshotError, match="signature by the cluster secret"):
        received(stream, other)
    instance.close()
    folder.close()


def test_a_signature_costs_little(secret: ClusterSecret) -> None:
    """Of 64 reads: some 6 µs here, on an idle machine."""
    access, proxy = ClusterAccess(secret, "b1"), Signer(secret, Purpose.PROXY)
    body = encode_keys(ORDERS, [b"N%05d" % n for n in range(64)])
    headers = [proxy.sign("POST", READS, "b1", body).header for _ in range(500)]
    best = 1.0
    for start in range(0, 500, 50):
        began = time.perf_counter()
        for header in headers[start : start + 50]:
            sender = access.admit((Purpose.PROXY,), "POST", READS, header, "")
            assert sender is not None
            sender.check_body(body)
        best = min(best, (time.perf_counter() - began) / 50)
    assert best < 100e-6


def test_a_client_certificate_is_as_good_as_a_signature(secret: ClusterSecret) -> None:
    with_certificate = {"client": "10.0.0.1", "has_certificate": True}
    for access in (ClusterAccess(mutual_tls=True), ClusterAccess(secret, "b1", mutual_tls=True)):
        asked = Purpose.PEER, "POST", b"/internal/scan", None
        assert access.admit(*asked, **with_certificate) is None
        for client in ("10.0.0.1", "127.0.0.1"):
            with pytest.raises(Forbidden):
                access.admit(*asked, client=client)


def test_a_proxy_gets_the_topology_while_its_clients_have_all_places(secret: ClusterSecret) -> None:
    """Clients of a proxy have its address."""
    here = context()
    here.cluster = ClusterAccess(secret, "b1")
    senders: list[str] = []

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        senders.append(this_client())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    router = Router(here, pages, access_control(here.settings, None, here.cluster))
    signed = Signer(secret, Purpose.PROXY).sign("GET", b"/processors", ANY_RECEIVER).header
    for header in (None, signed):
        posted(router, "/processors", b"", header, "10.0.0.1", method="GET")
    assert senders == ["10.0.0.1", INSTANCES]
