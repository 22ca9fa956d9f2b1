"""Hosts with several addresses. Some of these accept no connection."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from queryable import NoAnswer
from tests.unit.queryable.client.fake_server import RequestHandler, serving
from tests.unit.queryable.client.test_connection_errors import KINDS, make_client


@contextmanager
def full(host: str, port: int = 0) -> Iterator[int]:
    """A server that accepts no connection; its port."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server((host, port), backlog=0))
        address = server.getsockname()
        for _ in range(3):  # fill its queue
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)
        yield address[1]


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Lets `several.test` have these addresses."""
    resolve = socket.getaddrinfo

    def resolved(host: Any, *more: Any, **named: Any) -> Any:
        names = addresses if host == "several.test" else [host]
        return [each for name in names for each in resolve(name, *more, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_they_share_the_time(
    runner: asyncio.Runner, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.3", "127.0.0.4")
    with full("127.0.0.2") as port, full("127.0.0.3", port), full("127.0.0.4", port):
        client = make_client(kind, f"http://several.test:{port}", runner, timeout=0.6)
        started = time.monotonic()
        with pytest.raises(NoAnswer, match="in time"):
            client.view("orders")
        assert 0.59 < time.monotonic() - started < 0.6 * 3, "not 0.6 s for each of the three"
        client.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_one_that_hangs_leaves_time_for_the_others(
    runner: asyncio.Runner, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    with serving(RequestHandler.hang_up) as server, full("127.0.0.2", server.server_port):
        url = f"http://several.test:{server.server_port}"
        client = make_client(kind, url, runner, timeout=4.0)
        started = time.monotonic()
        assert client.view("orders").name == "orders"
        assert time.monotonic() - started < 4.0
        client.close()
