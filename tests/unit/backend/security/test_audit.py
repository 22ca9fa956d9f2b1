"""The audit log: what a line says, and what a hostile client can do to it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.http.access import Access, scope_of
from backend.http.auditing import DISCONNECTED, audit
from backend.http.request import Request
from backend.http.route_table import Match, Route
from backend.security.audit import (
    LOGGER,
    REFUSALS_PER_SECOND,
    REFUSED,
    AuditLog,
    described,
    open_audit_log,
)
from backend.security.client_claims import client_of_subject
from backend.security.identity import Identity
from backend.wire.plain_requests import PlainPost
from model.problems import ConfigurationError, Forbidden, NotFound, Unauthenticated
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.world import World, world
from tests.support.point_batch import encode_keys

SECRET = "never-in-the-log"


class Lines(list[str]):
    """The lines of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.log = AuditLog("b1", self.append, lambda: self.now)

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self]


async def nothing(_: Request) -> None:
    return None


def scope(**headers: str) -> dict[str, Any]:
    return {
        "method": "POST",
        "raw_path": f"/topics/orders/{SECRET}".encode(),
        "query_string": SECRET.encode(),
        "client": ("192.0.2.7", 4711),
        "headers": [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()],
    }


def match_of(access: Access) -> Match:
    route = Route(("POST",), "/topics/{topic}/records", access, nothing, None)  # type: ignore[arg-type]
    return Match(route, more={"topic": "orders"})


def request_of(of: dict[str, Any], subject: str | None = "alice") -> Request:
    request = Request(of, None, None, lambda _: [])  # type: ignore[arg-type]
    if subject is not None:
        request.identity = Identity(subject, frozenset({"append:orders"}), 1e12)
    return request


def test_an_append_says_who_what_and_from_where() -> None:
    lines, of = Lines(), scope(authorization=f"Bearer {SECRET}", x_forwarded_for="10.0.0.1")
    request = request_of(of)
    request.body = SECRET.encode()
    request.details.update(partition=3, offset=17)
    audit(lines.log, match_of(Access.APPEND), of, 200, request)
    (document,) = lines.documents
    assert document.pop("time").endswith("+00:00")
    assert document == {
        "event": "append", "instance": "b1", "subject": "alice", "scope": "append:orders",
        "method": "POST", "route": "/topics/{topic}/records", "name": "orders",
        "client": "192.0.2.7", "proxy": None, "claimed_client": "10.0.0.1", "claimed_id": None,
        "status": 200, "code": None, "partition": 3, "offset": 17,
    }  # fmt: skip
    assert SECRET not in lines[0]


@pytest.mark.parametrize(
    ("client", "members"),
    [
        ("203.0.113.7", ("203.0.113.7", "192.0.2.7")),
        ("192.0.2.7", ("192.0.2.7", None)),
        # another instance names a token, which is no address
        (client_of_subject("alice"), ("192.0.2.7", None)),
    ],
)
def test_a_client_behind_a_proxy_has_its_own_address(
    client: str, members: tuple[str, str | None]
) -> None:
    lines, of = Lines(), scope()
    request = request_of(of)
    request.client = client
    audit(lines.log, match_of(Access.APPEND), of, 200, request)
    # refused before there was a request
    audit(lines.log, match_of(Access.APPEND), of, 403, client=client)
    assert [(d["client"], d["proxy"]) for d in lines.documents] == [members] * 2


@pytest.mark.parametrize("longer", [0, 150, 5_000])
def test_a_client_cannot_push_its_address_out_of_the_line(longer: int) -> None:
    """nginx appends the address to what the client has sent."""
    lines = Lines()
    of = scope(x_forwarded_for="9.9.9.9, " * (longer // 9) + "192.0.2.9")
    audit(lines.log, match_of(Access.APPEND), of, 200, request_of(of))
    (document,) = lines.documents
    assert document["claimed_client"].endswith("192.0.2.9")
    assert len(document["claimed_client"]) <= 200


def test_the_address_is_that_of_the_last_header() -> None:
    lines, of = Lines(), scope()
    of["headers"] = [(b"x-forwarded-for", b"9.9.9.9"), (b"x-forwarded-for", b"192.0.2.9")]
    audit(lines.log, match_of(Access.APPEND), of, 200, request_of(of))
    assert lines.documents[0]["claimed_client"] == "192.0.2.9"


def test_refusals_appends_and_admin_actions_have_a_line_and_reads_have_none() -> None:
    lines, of = Lines(), scope()
    for access in Access:
        audit(lines.log, match_of(access), of, 200, request_of(of))
        audit(lines.log, match_of(access), of, 404, request_of(of), NotFound("a", "b"))
    assert [(d["event"], d["status"]) for d in lines.documents] == [
        ("append", 200), ("append", 404), ("admin", 200), ("admin", 404),
    ]  # fmt: skip
    lines.clear()
    for access in Access:
        audit(lines.log, match_of(access), of, 401, request_of(of, None), Unauthenticated("no"))
    assert {d["event"] for d in lines.documents} == {"refused"}
    assert len(lines) == len(Access)
    assert {d["code"] for d in lines.documents} == {"unauthenticated"}
    assert scope_of(Access.ADMIN, "") == "admin"


def test_a_refusal_names_the_subject_whose_scope_is_missing() -> None:
    lines, of = Lines(), scope()
    refusal = Forbidden("forbidden", "no", "append:orders")
    refusal.subject = "mallory"
    audit(lines.log, match_of(Access.APPEND), of, 403, request_of(of, None), refusal)
    assert [(d["event"], d["subject"]) for d in lines.documents] == [("refused", "mallory")]


@given(st.text(max_size=300), st.text(max_size=300), st.binary(max_size=300))
def test_no_client_can_begin_a_line(subject: str, name: str, claim: bytes) -> None:
    lines = Lines()
    headers = [(b"x-forwarded-for", claim + b'\n{"event":"append"}\r\n'), (b"x-request-id", claim)]
    request = described(
        "POST\n", "/topics/{topic}/records", name, "192.0.2.8", "192.0.2.7", headers
    )
    lines.log.record(REFUSED, 403, "forbidden", subject, "append:orders", request)
    (line,) = lines
    assert line.isascii()
    assert line.isprintable()
    document = json.loads(line)
    assert (document["event"], document["subject"]) == ("refused", subject)
    assert len(document["claimed_client"]) <= 200


def test_a_flood_of_refusals_is_counted_and_does_not_hide_appends() -> None:
    lines, of = Lines(), scope()
    refused = match_of(Access.READ)
    for _ in range(5000):
        audit(lines.log, refused, of, 401, None, Unauthenticated("no"))
    assert len(lines) == 200
    audit(lines.log, match_of(Access.APPEND), of, 200, request_of(of))
    assert lines.documents[-1]["event"] == "append"
    for second in range(1, 11):
        lines.now = float(second)
        for _ in range(1000):
            audit(lines.log, refused, of, 401, None, Unauthenticated("no"))
    events = [document["event"] for document in lines.documents]
    assert events.count("refused") == 200 + 10 * REFUSALS_PER_SECOND
    assert events.count("suppressed") == 10
    counted = sum(d["refusals"] for d in lines.documents if d["event"] == "suppressed")
    assert counted == 5000 - 200 + 9 * (1000 - REFUSALS_PER_SECOND)


@pytest.fixture
def audit_file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "audit.log"
    open_audit_log(str(path))
    yield path
    open_audit_log("")


def test_the_file_is_private_and_survives_rotation(audit_file: Path) -> None:
    logger = logging.getLogger(LOGGER)
    old_mask = os.umask(0)
    try:
        logger.info("first")
        rotated = audit_file.with_suffix(".1")
        audit_file.rename(rotated)
        logger.info("second")
    finally:
        os.umask(old_mask)
    assert (rotated.read_text(), audit_file.read_text()) == ("first\n", "second\n")
    for path in (rotated, audit_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_lines_are_appended_to_an_older_file(tmp_path: Path, audit_file: Path) -> None:
    logging.getLogger(LOGGER).info("first")
    open_audit_log(str(audit_file))
    logging.getLogger(LOGGER).info("second")
    assert audit_file.read_text() == "first\nsecond\n"


def test_a_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path, tmp_path / "missing" / "audit.log", link):
        with pytest.raises(ConfigurationError, match=f"QUERYABLE_AUDIT_LOG: .*{path}"):
            open_audit_log(str(path))


def test_the_router_writes_lines(orders: World, audit_file: Path) -> None:
    router = orders.routers["b1"]

    def ask(path: str, **headers: str) -> None:
        of = {**scope(**headers), "raw_path": path.encode()}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(_: Any) -> None:
            pass

        asyncio.run(router(of, receive, send))

    ask(f"/orders/{SECRET}", sec_fetch_site="cross-site")
    ask(f"/orders/{SECRET}", host="evil.example")
    ask(f"/orders/{SECRET}")
    ask("/topics/orders/records", content_type="text/plain")
    lines = [json.loads(line) for line in audit_file.read_text().splitlines()]
    assert [(line["event"], line["route"], line["name"], line["code"]) for line in lines] == [
        ("refused", "{path}/{key}", "orders", "cross-site"),
        ("refused", "{path}/{key}", "orders", "host-not-allowed"),
        ("append", "/topics/{topic}/records", "orders", "no-such-resource"),
    ]
    assert SECRET not in audit_file.read_text()


def test_the_router_finds_the_client_behind_two_proxies(tmp_path: Path, audit_file: Path) -> None:
    """Also if the client lies, and with or without a route that handles the request."""
    forwarded = "198.51.100.1, 203.0.113.9, 192.0.2.8"
    with world(tmp_path, ORDERS, trusted_proxies="192.0.2.0/24") as made:
        for headers in ({"sec_fetch_site": "cross-site"}, {"content_type": "text/plain"}):
            of = scope(x_forwarded_for=forwarded, queryable_client="198.51.100.2", **headers)
            asyncio.run(made.routers["b1"]({**of, "raw_path": b"/topics/a/records"}, None, nothing))  # type: ignore[arg-type]
    lines = [json.loads(line) for line in audit_file.read_text().splitlines()]
    assert [(line["event"], line["client"], line["proxy"]) for line in lines] == [
        ("refused", "203.0.113.9", "192.0.2.7"),
        ("append", "203.0.113.9", "192.0.2.7"),
    ]


def test_refused_coalesced_reads_have_a_line_on_the_fast_path_too(
    orders: World, audit_file: Path
) -> None:
    answer = orders.routers["b1"].fast_path.reads_now(
        PlainPost(None, encode_keys(ORDERS, [b"a"])), "192.0.2.7"
    )
    assert answer.status == 403
    (line,) = [json.loads(line) for line in audit_file.read_text().splitlines()]
    found = [line[name] for name in ("event", "method", "route", "client", "status", "code")]
    assert found == ["refused", "POST", "/internal/reads", "192.0.2.7", 403, "not-a-member"]


def test_refused_heartbeats_have_a_line_on_the_fast_path_too(
    orders: World, audit_file: Path
) -> None:
    answer = orders.routers["b1"].fast_path.heartbeat_now(PlainPost(None, b"{}"), "192.0.2.7")
    assert answer.status == 403
    (line,) = [json.loads(line) for line in audit_file.read_text().splitlines()]
    found = [line[name] for name in ("event", "method", "route", "client", "status", "code")]
    assert found == ["refused", "POST", "/internal/heartbeat", "192.0.2.7", 403, "not-a-member"]


def test_a_flood_of_wrong_appends_is_counted_too() -> None:
    """Without authentication everyone can send them."""
    lines, of = Lines(), scope()
    for _ in range(5000):
        audit(lines.log, match_of(Access.APPEND), of, 404, request_of(of), NotFound("a", "b"))
    assert len(lines) == 200
    for status in (200, 503):
        audit(lines.log, match_of(Access.APPEND), of, status, request_of(of))
    assert [document["status"] for document in lines.documents[-2:]] == [200, 503]


def test_an_append_whose_client_has_left_has_a_line(orders: World, audit_file: Path) -> None:
    """The record may have been stored."""
    router = orders.routers["b1"]

    async def leave() -> None:
        began = asyncio.Event()

        async def receive() -> dict[str, Any]:
            began.set()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(_: Any) -> None:
            pass

        of = {**scope(), "raw_path": b"/topics/orders/records"}
        task = asyncio.create_task(router(of, receive, send))  # type: ignore[arg-type]
        await began.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(leave())
    (line,) = [json.loads(line) for line in audit_file.read_text().splitlines()]
    assert (line["event"], line["code"]) == ("append", DISCONNECTED)
