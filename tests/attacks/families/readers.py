"""Clients that do not read their answers, or slowly: pages, streams, Flask's documents."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from tests.attacks.attack import (
    CHANGING,
    VIEW,
    Attack,
    Attempt,
    Connection,
    Perform,
    both,
    get,
)

_SMALL = 4096  # bytes of a receive buffer


def _reading(path: str, count: int, bytes_a_second: int = 0, headers: bytes = b"") -> Perform:
    """Many clients ask for `path` and read that much. If they read nothing, each has to be
    disconnected after the send time-out."""

    async def perform(attempt: Attempt) -> None:
        async def work(_: int) -> None:
            try:
                connection = await attempt.connect(receive_buffer=_SMALL)
            except (OSError, TimeoutError):
                attempt.outcomes["no connection"] += 1
                return
            with connection:
                try:
                    await connection.send(get(path, headers))
                except OSError:
                    attempt.outcomes["closed"] += 1
                    return
                await _read(attempt, connection, bytes_a_second)

        await attempt.crowd(count, work)

    return perform


async def _read(attempt: Attempt, connection: Connection, bytes_a_second: int) -> None:
    if not bytes_a_second:
        await asyncio.sleep(attempt.left)
        attempt.outcomes["read nothing"] += 1
        return
    while not attempt.is_over:
        await asyncio.sleep(0.1)
        if not await connection.receive(1.0, max(1, bytes_a_second // 10)):
            attempt.outcomes["closed"] += 1
            return
    attempt.outcomes["read slowly"] += 1


def _streams(count: int, per_key: int = 1) -> Perform:
    """Opens streams of keys that change all the time, and reads nothing."""
    paths = [f"/views/{VIEW}/keys/{quote(key)}/changes" for key in CHANGING]

    async def perform(attempt: Attempt) -> None:
        opened: list[Connection] = []
        numbers = iter(range(count))

        async def work(_: int) -> None:
            for number in numbers:
                if attempt.is_over:
                    return
                try:
                    connection = await attempt.connect(receive_buffer=_SMALL)
                except (OSError, TimeoutError):
                    attempt.outcomes["no connection"] += 1
                    continue
                opened.append(connection)
                attempt.outcomes[await connection.ask(get(paths[number % len(paths)]), 5.0)] += 1

        await attempt.crowd(32, work)
        await asyncio.sleep(attempt.left)
        for connection in opened:
            connection.sock.close()

    return perform


_PAGE = f"/views/{VIEW}/keys?limit=1000"
_LINES = b"Accept: application/x-ndjson\r\n"
_MEMORY = "memory stays bounded, others find room"

ATTACKS: list[Attack] = [
    *both("unread-pages", _MEMORY, _reading(_PAGE, 1500), 4.0),
    *both("slow-pages", _MEMORY, _reading(_PAGE, 200, 1000), 4.0),
    *both("unread-lines", _MEMORY, _reading(f"/views/{VIEW}/keys", 100, headers=_LINES), 4.0),
    *both("slow-lines", _MEMORY, _reading(f"/views/{VIEW}/keys", 100, 2000, _LINES), 4.0),
    *both("unread-documents", _MEMORY, _reading("/openapi.json", 64), 4.0),
    *both("unread-streams", _MEMORY, _streams(200), 5.0),
    *both("many-streams", "streams over the limit are 503", _streams(1200), 5.0),
]
