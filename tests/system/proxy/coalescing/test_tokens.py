"""Reads with tokens are coalesced: a batch has a digest of each token once, and the backend gets
each read with that of its own."""

from __future__ import annotations

import json
from collections import Counter

from backend.security.token_cache import digest_of
from backend.wire.point_batch import decode_reads
from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy.backends import Answer, Request
from tests.system.proxy.conftest import KEY, Roles
from tests.system.proxy.crowd import LINE, Crowd, Gate, metric, value, wait_waiting


def echo(request: Request) -> Answer:
    return Answer(body=json.dumps(request.headers.get("Authorization")).encode())


def digest(token: str) -> str:
    """As the fake backend says that a batch had it."""
    return f"SHA256 {digest_of(token.encode()).decode()}"


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}\r\n" if token else ""


def test_each_read_is_sent_with_its_own_token(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    crowd.send(LINE, headers=bearer("first"))
    wait_until(lambda: len(active.requests) == 1, 10, "the first read")
    assert active.requests[0].headers["Authorization"] == digest("first")
    long = "t" * 7_000
    tokens = ["one", "two", "", "one", long, "", "two", "a+/~.9==", "one"]
    for token in tokens:
        crowd.send(LINE, headers=bearer(token))
    wait_waiting(nginx, active, len(tokens))
    bodies: list[bytes] = []

    def echo_batch(batch: Request) -> Answer | None:
        bodies.append(batch.body)
        active.behave = echo
        return active.answer_batch(batch)

    active.behave_batch = echo_batch
    gate.open()
    _, *answers = crowd.answers()
    expected = [digest(token) if token else None for token in tokens]
    assert [value(answer) for answer in answers] == expected
    assert active.batches == [1, len(tokens)]
    [body] = bodies
    named, _ = decode_reads(body)
    assert Counter(named) == Counter(digest_of(token.encode()) for token in {*tokens} - {""})
    assert b"one" not in body
    entries = nginx.access_log(len(tokens) + 1, KEY)
    assert {entry["batch"] for entry in entries} == {1, len(tokens)}
    log = (nginx.prefix / "logs" / "access.log").read_text() + nginx.error_log()
    assert "Bearer" not in log
    assert long not in log


def test_the_tokens_of_a_batch_are_limited(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    active = roles[0]
    crowd.send(LINE)
    wait_until(lambda: len(active.requests) == 1, 10, "the first read")
    for number in range(130):
        crowd.send(LINE, headers=bearer(f"t{number}"))
    wait_until(lambda: len(active.requests) == 3, 10, "the two that did not fit")
    wait_waiting(nginx, active, 128)
    assert metric(nginx, "batches_full_total") == 2
    active.behave = echo
    gate.open()
    _, *answers = crowd.answers()
    tokens = [value(answer) for answer in answers]
    assert tokens[:128] == [digest(f"t{number}") for number in range(128)]
    assert active.batches == [1, 128]


def test_a_read_that_the_batch_does_not_answer_is_sent_with_its_token(
    roles: Roles, nginx: Nginx, crowd: Crowd, gate: Gate
) -> None:
    """As if the backend refused its token."""
    active = roles[0]
    crowd.send(LINE)
    wait_until(lambda: len(active.requests) == 1, 10, "the first read")
    for token in ("good", "bad", "good"):
        crowd.send(LINE, headers=bearer(token))
    wait_waiting(nginx, active, 3)

    def refuse_the_bad_one(request: Request) -> Answer:
        if request.headers["Authorization"] not in ("Bearer bad", digest("bad")):
            return echo(request)
        # a batch has no answer for it: see Backend.answer_batch
        return Answer(401 if "Host" in request.headers else 503, b"{}")

    active.behave = refuse_the_bad_one
    gate.open()
    _, *answers = crowd.answers()
    assert [answer.status for answer in answers] == [200, 401, 200]
    assert active.batches == [1, 3]
