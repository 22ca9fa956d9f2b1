"""Requests that two servers may read differently, disguised paths, and what ends up in logs."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.attacks.attack import (
    BACKEND,
    HANGS,
    PROXY,
    VIEW,
    Attack,
    Attempt,
    Perform,
    both,
    each,
    get,
    status_of,
)

_KEY = f"/views/{VIEW}/keys/order%201"
_HIDDEN = b"GET /hidden-request HTTP/1.1\r\nHost: a\r\n\r\n"
_START = b"POST /views/orders/search HTTP/1.1\r\nHost: a\r\n"

# framing that is ambiguous, with a second request in what may be the body or the next request
_AMBIGUOUS = [
    _START + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _START + b"Content-Length: 0\r\nContent-Length: 43\r\n\r\n" + _HIDDEN,
    _START + b"Content-Length: 0, 43\r\n\r\n" + _HIDDEN,
    _START + b"Content-Length: +5\r\n\r\n" + _HIDDEN,
    _START + b"Content-Length: -5\r\n\r\n" + _HIDDEN,
    _START + b"Content-Length: 0x10\r\n\r\n" + _HIDDEN,
    _START + b"Content-Length : 5\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding: xchunked\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n" + _HIDDEN,
    _START + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + _HIDDEN,
    _START + b"X: a\r\n Content-Length: 43\r\n\r\n" + _HIDDEN,
    b"GET " + _KEY.encode() + b" HTTP/1.1\r\nHost: a\r\nHost: b\rX: y\r\n\r\n",
    b"GET " + _KEY.encode() + b" HTTP/1.1\r\nHost: a\r\nX\x00: y\r\n\r\n",
    b"GET " + _KEY.encode() + b"\tHTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET " + _KEY.encode() + b" HTTP/9.9\r\nHost: a\r\n\r\n",
]


_STATUS_LINE = re.compile(rb"HTTP/1\.[01] \d{3} ")


async def _ambiguous(attempt: Attempt) -> None:
    """Refused if no answer follows the first one, or if the hidden request is a request of its own
    for everyone: then the first answer says 404 or 400, and the connection is as usual."""

    async def work(number: int) -> None:
        turn = number
        while not attempt.is_over:
            request = _AMBIGUOUS[turn % len(_AMBIGUOUS)]
            try:
                with await attempt.connect() as connection:
                    await connection.send(request)
                    received = await connection.all(1.0)
            except (OSError, TimeoutError):
                received = b""
            attempt.outcomes[status_of(received)] += 1
            if len(_STATUS_LINE.findall(received)) > 1 or b"hidden-request" in received:
                attempt.fail(f"two answers to {request[:200]!r}")
            if status_of(received) in ("200", "500"):
                attempt.fail(f"{status_of(received)} to {request[:200]!r}")
            turn += 1

    await attempt.crowd(len(_AMBIGUOUS), work)


async def _desync(attempt: Attempt) -> None:
    """Two valid requests for different keys in one write, in fragments of each size: the answers
    have to be in order."""
    keys = [b"order%201", b"order%202", b"no%20key"]
    pair = b"".join(get(b"/views/orders/keys/" + key) for key in keys)
    wanted = [b'"order 1"', b'"order 2"', b"key-not-found"]

    async def work(number: int) -> None:
        size = number + 1
        while not attempt.is_over:
            try:
                with await attempt.connect() as connection:
                    for at in range(0, len(pair), size):
                        await connection.send(pair[at : at + size])
                        await asyncio.sleep(0)
                    received = b""
                    while received.count(b"key-not-found") < 1:
                        chunk = await connection.receive(5.0)
                        if not chunk:
                            break
                        received += chunk
            except (OSError, TimeoutError):
                received = b""
            places = [received.find(text) for text in wanted]
            if -1 in places or places != sorted(places):
                attempt.fail(f"pieces of {size} bytes: answers are missing or in another order")
            attempt.outcomes["in order" if places == sorted(places) else "wrong"] += 1
            size = size * 7 % 97 + 1

    await attempt.crowd(8, work)


_DISGUISED = [
    "/internal/reads", "/internal/scan", "/internal/copy", "//internal/reads", "/./internal/reads",
    "/%69nternal/reads", "/internal%2freads", "/internal%2Freads", "/INTERNAL/reads",
    "/views/../internal/reads", "/views/%2e%2e/internal/reads", "/views/..%2finternal/reads",
    "/internal/./reads", "/internal//reads", "/internal/reads/", "/internal/reads%00",
    "/internal/reads;x=1", "/internal\\reads", "/views/orders/keys/..%2f..%2f../internal/reads",
    "http://127.0.0.1/internal/reads", "http://127.0.0.1/%69nternal/reads",
]  # fmt: skip


def _post_reads(path: str) -> bytes:
    body = f"paths 1 0\n{_KEY}".encode()
    return b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(), len(body), body,
    )  # fmt: skip


_INJECTED = b"injected-header"
_INJECTIONS = [
    get(f"/views/{VIEW}/keys/a%0d%0a{_INJECTED.decode()}:%20x"),
    get(f"/views/{VIEW}/keys/a%E5%98%8A%E5%98%8D{_INJECTED.decode()}:%20x"),
    get(f"/views/%0d%0a{_INJECTED.decode()}:%20x"),
    get(f"/views/{VIEW}/keys?cursor=%0d%0a{_INJECTED.decode()}:%20x"),
    get(_KEY, b'If-None-Match: "a\n' + _INJECTED + b': x"\r\n'),
    get(_KEY, b"Queryable-Forwarded: b9\r\nX: a\r" + _INJECTED + b": x\r\n"),
]


async def _injection(attempt: Attempt) -> None:
    """Refused if no answer has the header that the request tries to insert."""

    async def work(number: int) -> None:
        turn = number
        while not attempt.is_over:
            try:
                with await attempt.connect() as connection:
                    await connection.send(_INJECTIONS[turn % len(_INJECTIONS)])
                    received = await connection.receive(5.0) or b""
            except (OSError, TimeoutError):
                received = b""
            head = received.partition(b"\r\n\r\n")[0].lower()
            attempt.outcomes[status_of(received)] += 1
            if b"\n" + _INJECTED in head or b"\r" + _INJECTED in head:
                attempt.fail("the answer has an injected header")
            if status_of(received) == "500":
                attempt.fail(f"500 to {_INJECTIONS[turn % len(_INJECTIONS)][:100]!r}")
            turn += 1

    await attempt.crowd(len(_INJECTIONS), work)


_FORGED_LINE = "FORGED LINE"
_FORGED = [
    get(f"/views/{VIEW}/keys/a%0a{_FORGED_LINE.replace(' ', '%20')}"),
    get(f"/views/a%0d%0a{_FORGED_LINE.replace(' ', '%20')}/keys"),
    get(f"/views/{VIEW}/nothing%0a{_FORGED_LINE.replace(' ', '%20')}"),
    get("/views/" + "%1b%5b2J" * 20),
    get("/views", b"User-Agent: a\\n" + _FORGED_LINE.encode() + b"\r\n"),
]


async def _logs(attempt: Attempt) -> None:
    """Refused if no line of the log of the instance begins with the client's text, and the log
    does not grow with the number of requests."""
    path = Path(attempt.site.log)
    before = path.stat().st_size

    async def work(number: int) -> None:
        while not attempt.is_over:
            await attempt.send(_FORGED[number % len(_FORGED)])

    await attempt.crowd(2 * len(_FORGED), work)
    with path.open("rb") as file:
        file.seek(before)
        written = file.read()
    if any(line.startswith(_FORGED_LINE.encode()) for line in written.splitlines()):
        attempt.fail("a line of the log is the client's")
    if b"\x1b[" in written:
        attempt.fail("the log has control characters of the client")
    if len(written) > 100_000:
        attempt.fail(f"the log grew by {len(written)} bytes")


def _spoofed(headers: bytes) -> Perform:
    """Headers that only a proxy sends: the answer is the usual one."""

    async def perform(attempt: Attempt) -> None:
        async def work(_: int) -> None:
            while not attempt.is_over:
                outcome = await attempt.send(get(_KEY, headers))
                if outcome in (HANGS, "500", "530"):
                    attempt.fail(f"{outcome} to {headers!r}")

        await attempt.crowd(8, work)

    return perform


ATTACKS: list[Attack] = [
    *both("ambiguous-framing", "400 or 501, and one answer", _ambiguous),
    *both("desync", "answers stay in order", _desync),
    Attack("disguised-internal", PROXY, "404 or 400", each(*map(_post_reads, _DISGUISED))),
    *both("header-injection", "no such header in the answer", _injection),
    *both(
        "spoofed-headers",
        "they change nothing",
        _spoofed(b"Queryable-Forwarded: b1\r\nX-Forwarded-For: 127.0.0.1\r\n"),
    ),
    Attack("log-injection", BACKEND, "one line each, escaped, or none", _logs),
    Attack("log-injection", PROXY, "one line each, escaped, or none", _logs),
]
