"""Connections that are slow, half-open or too many."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

from tests.attacks.attack import VIEW, Attack, Attempt, Connection, Perform, both, get

_SLOW = 300  # connections
_MANY = 4_500  # more than a backend, and a worker of nginx, allow
_GRACE = 3.0  # s after the time-outs of the site
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset

_PATH = f"/views/{VIEW}/keys/order%201"


def _drips(start: bytes, drop: bytes, pause: float) -> Perform:
    """Many connections send `start`, then a drop now and then. Refused if the server closes each
    of them after its time-out."""

    async def perform(attempt: Attempt) -> None:
        async def work(_: int) -> None:
            try:
                connection = await attempt.connect()
            except (OSError, TimeoutError):
                attempt.outcomes["no connection"] += 1
                return
            with connection:
                await _drip(attempt, connection, start, drop, pause)

        await attempt.crowd(_SLOW, work)

    return perform


async def _drip(
    attempt: Attempt, connection: Connection, start: bytes, drop: bytes, pause: float
) -> None:
    try:
        await connection.send(start)
        while not attempt.is_over:
            if await connection.closed_within(pause):
                attempt.outcomes["closed in time"] += 1
                return
            await connection.send(drop)
    except OSError:
        attempt.outcomes["closed in time"] += 1
        return
    if await connection.closed_within(_GRACE * attempt.patience):
        attempt.outcomes["closed later"] += 1
    else:
        attempt.outcomes["still open"] += 1
        attempt.fail("a slow connection is still open after the time-out")


async def _open_all(attempt: Attempt, first: bytes, part: bytes, count: int) -> list[Connection]:
    """Opens connections, 64 at a time."""
    opened: list[Connection] = []
    numbers = iter(range(count))

    async def work(_: int) -> None:
        for _number in numbers:
            if attempt.is_over:
                return
            try:
                connection = await attempt.connect()
            except (OSError, TimeoutError):
                attempt.outcomes["no connection"] += 1
                continue
            opened.append(connection)
            if first:
                attempt.outcomes[await connection.ask(first, 5.0)] += 1
            if part:
                with suppress(OSError):
                    await connection.send(part)

    await attempt.crowd(64, work)
    return opened


def _idle(first: bytes, count: int, part: bytes = b"") -> Perform:
    """Opens that many connections and keeps them. All that counts is what others notice of it.
    `first` is a request, `part` is the beginning of one."""

    async def perform(attempt: Attempt) -> None:
        opened = await _open_all(attempt, first, part, count)
        await asyncio.sleep(attempt.left)
        attempt.outcomes["opened"] = len(opened)
        for connection in opened:
            connection.sock.close()

    return perform


async def _churn(attempt: Attempt) -> None:
    """Connects, and resets the connection at once."""

    async def work(_: int) -> None:
        while not attempt.is_over:
            try:
                connection = await attempt.connect()
            except (OSError, TimeoutError):
                attempt.outcomes["no connection"] += 1
                continue
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.sock.close()
            attempt.outcomes["reset"] += 1

    await attempt.crowd(16, work)


async def _leave_early(attempt: Attempt) -> None:
    """Asks for a page, and disconnects before the answer."""
    request = get(f"/views/{VIEW}/keys?limit=1000")

    async def work(_: int) -> None:
        while not attempt.is_over:
            try:
                with await attempt.connect() as connection:
                    await connection.send(request)
                    attempt.outcomes["left"] += 1
            except (OSError, TimeoutError):
                attempt.outcomes["no connection"] += 1
            await asyncio.sleep(0.01)

    await attempt.crowd(16, work)


_SEARCH = b"POST /views/orders/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900\r\n\r\n"
_BATCH = b"POST /views/orders/batch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900000\r\n\r\n"
_HEAD = b"GET " + _PATH.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"
_CHUNKED = (
    b"POST /views/orders/search HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
)

_CLOSED = "each connection is closed after the time-out for a request"
_OTHERS = "the newest connections of others find room"

ATTACKS: list[Attack] = [
    *both("slow-headers", _CLOSED, _drips(_HEAD, b"X", 0.2), 4.0),
    *both("slow-bodies", _CLOSED, _drips(_SEARCH, b"[", 0.2), 4.0),
    *both("slow-chunks", _CLOSED, _drips(_CHUNKED, b"1\r\n[\r\n", 0.2), 4.0),
    *both("slow-large-bodies", _CLOSED, _drips(_BATCH + b"[" * 400_000, b"[", 0.2), 4.0),
    *both("half-open", _CLOSED, _drips(b"", b"", 0.5), 4.0),
    *both("idle-flood", _OTHERS, _idle(get(_PATH), _MANY), 4.0),
    *both("partial-flood", _OTHERS, _idle(b"", _MANY, _SEARCH), 3.0),
    *both("churn", "connections without a request cost nothing later", _churn),
    *both("leave-early", "the work for clients that have left ends", _leave_early),
]
