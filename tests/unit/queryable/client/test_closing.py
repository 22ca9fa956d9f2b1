"""A client that is closed while it has open streams."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from queryable import AsyncClient, Client, NoAnswer
from tests.unit.queryable.client.fake_server import RequestHandler, Server, serving

LONG = 10.0
EVENT = b'id: 0:%d\nevent: value\ndata: {"key":"a","value":1}\n\n'
ROW = b'{"key":"%09d","value":1}\n'
BOTH = pytest.mark.parametrize("name", ["scan", "changes"])


@contextmanager
def streaming() -> Iterator[tuple[Server, threading.Event, threading.Event]]:
    """A server that sends one row, and others only when the second event is set. The first one says
    that the client has disconnected."""
    disconnected, go_on = threading.Event(), threading.Event()

    def handle(request: RequestHandler) -> None:
        row = EVENT if request.path.endswith("/changes") else ROW
        request.begin_chunked()
        request.chunk(row % 0)
        request.connection.settimeout(LONG)
        with suppress(OSError):
            if not request.connection.recv(1):
                disconnected.set()
        go_on.wait(LONG)
        with suppress(OSError):
            for number in range(1, 5):
                request.chunk(row % number)

    with serving(handle) as server:
        try:
            yield server, disconnected, go_on
        finally:
            go_on.set()


def rows_of(client: Any, name: str) -> Any:
    return client.scan("orders", stream=True) if name == "scan" else client.changes("orders", "a")


@BOTH
def test_a_stream_ends_with_an_error(name: str) -> None:
    with streaming() as (server, disconnected, _):
        client = Client(server.url)
        rows = iter(rows_of(client, name))
        next(rows)
        client.close()
        assert disconnected.wait(LONG)
        with pytest.raises(NoAnswer, match="was closed"):
            next(rows)
        assert len(server.paths) == 1, "no stream is opened again"
        # a later call opens new connections
        assert next(iter(rows_of(client, name))).value == 1
        client.close()


@pytest.mark.slow
@BOTH
def test_a_stream_that_another_thread_reads_ends(name: str) -> None:
    with streaming() as (server, disconnected, _):
        client = Client(server.url)
        rows = iter(rows_of(client, name))
        next(rows)
        errors: list[NoAnswer] = []

        def read() -> None:
            try:
                next(rows)
            except NoAnswer as error:
                errors.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        time.sleep(0.1)  # until it waits for the server
        client.close()
        reader.join(LONG / 2)
        assert not reader.is_alive()
        assert errors
        assert disconnected.wait(LONG)
        assert len(server.paths) == 1


@pytest.mark.slow
@BOTH
def test_an_async_stream_ends_with_an_error(name: str) -> None:
    async def read(server: Server, is_waiting: bool) -> None:
        client = AsyncClient(server.url)
        rows = aiter(rows_of(client, name))
        await anext(rows)
        next_row = asyncio.ensure_future(anext(rows)) if is_waiting else None
        await asyncio.sleep(0.1)
        await client.close()
        with pytest.raises(NoAnswer, match="was closed"):
            await (next_row or anext(rows))
        assert len(server.paths) == 1
        assert client._transport._http is None
        await client.close()

    for is_waiting in (False, True):
        with streaming() as (server, disconnected, _):
            asyncio.run(asyncio.wait_for(read(server, is_waiting), LONG))
            assert disconnected.wait(LONG)
