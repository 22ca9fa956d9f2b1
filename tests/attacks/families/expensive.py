"""Allowed requests that cost much, and as many of them as the attacker can send."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import quote

from model.views import View
from tests.attacks.attack import (
    BACKEND,
    CLOSED,
    HANGS,
    PARTITIONS,
    VIEW,
    Attack,
    Attempt,
    Connection,
    Perform,
    both,
    get,
    post,
)
from tests.support.point_batch import encode_keys

_KEYS = f"/views/{VIEW}/keys"
_ALL = [f"order {number}" for number in range(20_000)]


def _flood(requests: Sequence[bytes], connections: int, timeout: float = 20.0) -> Perform:
    """Each of many connections sends one request after the other. Refused if every request gets an
    answer, which may be 503, and none is 500."""

    async def perform(attempt: Attempt) -> None:
        async def work(number: int) -> None:
            connection: Connection | None = None
            turn = number
            while not attempt.is_over:
                try:
                    connection = connection or await attempt.connect()
                    outcome = await _ask(connection, requests[turn % len(requests)], timeout)
                except (OSError, TimeoutError):
                    outcome = CLOSED
                attempt.outcomes[outcome] += 1
                if outcome in (HANGS, "500", "not HTTP"):
                    attempt.fail(f"{outcome} to {requests[turn % len(requests)][:80]!r}")
                if outcome in (CLOSED, HANGS) and connection is not None:
                    connection.sock.close()
                    connection = None
                turn += 1
            if connection is not None:
                connection.sock.close()

        await attempt.crowd(connections, work)

    return perform


_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: (\d+)")


async def _ask(connection: Connection, request: bytes, timeout: float) -> str:
    """The status, after the whole body was read."""
    await connection.send(request)
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = await connection.receive(timeout)
        if not chunk:
            return HANGS if chunk is None else CLOSED
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    found = _LENGTH.search(head)
    left = (int(found[1]) if found else 0) - len(body)
    while left > 0:
        chunk = await connection.receive(timeout)
        if not chunk:
            return HANGS if chunk is None else CLOSED
        left -= len(chunk)
    return head[9:12].decode("latin-1")


async def _cursors(attempt: Attempt) -> None:
    """Begins many walks over the view, and never ends one; then walks on with cursors of others."""
    first = get(f"{_KEYS}?limit=1")
    forged = [get(f"{_KEYS}?cursor={text}") for text in ("AAAA", "e30", "%00", "A" * 4000)]

    async def work(number: int) -> None:
        while not attempt.is_over:
            await attempt.send(first)
            outcome = await attempt.send(forged[number % len(forged)])
            if outcome in (HANGS, "500", "200"):
                attempt.fail(f"{outcome} to a forged cursor")

    await attempt.crowd(32, work)


async def _pipeline(attempt: Attempt) -> None:
    """Sends requests without waiting for the answers, which it reads and discards."""
    many = get(f"{_KEYS}/order%201") * 500

    async def work(_: int) -> None:
        while not attempt.is_over:
            try:
                with await attempt.connect() as connection:
                    await connection.send(many)
                    while await connection.receive(0.2, 1 << 20):
                        if attempt.is_over:
                            return
                attempt.outcomes["500 pipelined"] += 1
            except (OSError, TimeoutError):
                attempt.outcomes[CLOSED] += 1

    await attempt.crowd(16, work)


def _batch(keys: Sequence[str]) -> bytes:
    return post(f"/views/{VIEW}/batch", json.dumps({"keys": keys}).encode())


_PAGES = [get(f"{_KEYS}?limit=1000"), get(f"{_KEYS}?limit=1000&order=desc")]
_WALKS = [
    get(f"/views/{VIEW}/count?exact=true"),
    get(f"/views/{VIEW}/top?by=filler&limit=100"),
    get(f"/views/{VIEW}/aggregate?by=of&value=filler"),
]
_BATCHES = [_batch(_ALL[start : start + 1000]) for start in range(0, 20_000, 1000)]
_MISSES = [_batch([f"no key {n} {start}" for n in range(1000)]) for start in range(10)]
_READS = [get(f"{_KEYS}/order%20{number}") for number in range(1000)]
_SEARCHES = [
    post(f"/views/{VIEW}/search", json.dumps({"query": key}).encode()) for key in _ALL[:50]
]
_DOCUMENTS = [
    get(path) for path in ("/metrics", "/openapi.json", "/admin", "/processors", "/views")
]
_ORDERS = View(VIEW, VIEW, None, "string", "json", "murmur2")
_COALESCED = [
    post(
        "/internal/reads",
        encode_keys(_ORDERS, [key.encode() for key in _ALL[start : start + 1000]], PARTITIONS),
        b"Content-Type: application/octet-stream\r\n",
    )
    for start in range(0, 10_000, 1000)
]
# no entry meets them, so each reads as much as one request may
_NEVER = [
    "filler = 'nothing'",
    "filler like '%a%b'",
    "regexp_like(filler, 'x[0-9]{20}y') and of = 'nobody'",
    " or ".join(f"lower(filler) = 'no {number}'" for number in range(60)),
]
_FILTERS = [
    get(f"{path}?where={quote(where)}")
    for where in _NEVER
    for path in (_KEYS, f"/views/{VIEW}/count", f"/views/{VIEW}/aggregate")
]
_ANSWERED = "each is answered, or 503"

ATTACKS: list[Attack] = [
    *both("read-flood", _ANSWERED, _flood(_READS, 64)),
    *both("page-flood", _ANSWERED, _flood(_PAGES, 100)),
    *both("walk-flood", _ANSWERED, _flood(_WALKS, 100)),
    *both("filter-flood", _ANSWERED, _flood(_FILTERS, 100)),
    *both("batch-flood", _ANSWERED, _flood([*_BATCHES, *_MISSES], 200)),
    *both("search-flood", _ANSWERED, _flood(_SEARCHES, 200)),
    *both("document-flood", _ANSWERED, _flood(_DOCUMENTS, 100)),
    Attack("coalesced-flood", BACKEND, _ANSWERED, _flood(_COALESCED, 32)),
    *both("many-cursors", "forged ones are 400", _cursors),
    *both("pipelined-flood", "answered in order, and reading is paused", _pipeline),
]
