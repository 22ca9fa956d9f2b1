"""Servers that hang, hang up, or are somebody else's; readers that leave; many at once."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from local.ports import free_ports
from local.waiting import wait_until
from queryable import AsyncClient, Client, NoAnswer, ServerError, Unavailable, Unconfirmed
from tests.queryable.asking import Asker
from tests.queryable.server import Answering, serving

KINDS = ["threads", "asyncio"]
LONG = 10.0


def asker(kind: str, url: str, runner: asyncio.Runner, **options: Any) -> Asker:
    of = Client if kind == "threads" else AsyncClient
    return Asker(of(url, **options), runner, kind)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        yield running


@pytest.fixture
def silent() -> Iterator[str]:
    """Takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


QUESTIONS = [
    ("get", ("orders", "a")),
    ("get_many", ("orders", ["a"])),
    ("scan", ("orders",)),
    ("top", ("orders", "n")),
    ("count", ("orders",)),
    ("append", ("orders", "a", 1)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "arguments"), QUESTIONS, ids=[name for name, _ in QUESTIONS])
def test_a_call_ends_in_its_time(
    silent: str, runner: asyncio.Runner, kind: str, name: str, arguments: Any
) -> None:
    client = asker(kind, silent, runner)
    begun = time.monotonic()
    with pytest.raises(NoAnswer):
        getattr(client, name)(*arguments, timeout=0.2)
    assert 0.19 < time.monotonic() - begun < 3
    client.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_ends_in_its_time_where_the_view_is_known(runner: asyncio.Runner, kind: str) -> None:
    over = threading.Event()
    with serving(lambda _: over.wait(LONG) and None) as server:
        client = asker(kind, server.url, runner, timeout=LONG)
        client.view("orders")
        for ask in (
            lambda: client.get("orders", "a", timeout=0.2),
            lambda: client.scan("orders", timeout=0.2),
            lambda: client.scan("orders", timeout=0.2, stream=True),
        ):
            begun = time.monotonic()
            with pytest.raises(NoAnswer):
                ask()
            assert 0.19 < time.monotonic() - begun < 3
        with pytest.raises(Unconfirmed):
            client.append("orders", "a", 1, timeout=0.2)
        over.set()
        client.close()


@pytest.mark.parametrize("kind", KINDS)
def test_an_append_that_was_cut_is_unconfirmed_and_not_repeated(
    runner: asyncio.Runner, kind: str
) -> None:
    with serving(Answering.hang_up) as server:
        client = asker(kind, server.url, runner)
        with pytest.raises(Unconfirmed):
            client.append("orders", "a", 1)
        assert len(server.asked) == 1
        client.close()
    client = asker(kind, f"http://127.0.0.1:{free_ports(1)[0]}", runner, timeout=0.5)
    with pytest.raises(NoAnswer) as told:
        client.get("orders", "a")
    assert not told.value.may_have_arrived
    client.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", [b"<html>", b"[]", b'{"items": 1}', b'{"value"'])
def test_somebody_elses_server(runner: asyncio.Runner, kind: str, said: bytes) -> None:
    with serving(lambda request: request.say(200, said)) as server:
        client = asker(kind, server.url, runner)
        for name, arguments in QUESTIONS:
            with pytest.raises(ServerError) as told:
                getattr(client, name)(*arguments)
            assert told.value.code == "not-understood"
        with pytest.raises(ServerError):
            client.scan("orders", stream=True)
        client.close()
    with serving(lambda request: request.say(502, b"<html>", Retry_After="0")) as server:
        client = asker(kind, server.url, runner, timeout=0.3)
        with pytest.raises(Unavailable):
            client.get("orders", "a")
        client.close()


def lines(request: Answering, left: threading.Event) -> None:
    """NDJSON, or events, without an end; `left` is set when nobody reads them any more."""
    is_of_a_key = request.path.endswith("/changes")
    request.begin()
    number = 0
    try:
        while not left.is_set():
            row = json.dumps({"key": f"{number:09}", "value": 0}).encode()
            event = b"id: 0:%d\nevent: value\ndata: %b\n\n" % (number, row)
            request.chunk(event if is_of_a_key else row + b"\n")
            number += 1
    except OSError:
        left.set()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["scan", "changes"])
def test_who_leaves_in_the_middle_closes_the_connection(
    runner: asyncio.Runner, kind: str, name: str
) -> None:
    left = threading.Event()
    with serving(lambda request: lines(request, left)) as server:
        client = asker(kind, server.url, runner)
        rows = (
            client.client.scan("orders", stream=True)
            if name == "scan"
            else client.client.changes("orders", "a")
        )
        assert len(client.first(rows, 3)) == 3
        wait_until(lambda: client.turn() or left.is_set(), LONG, "the connection to be closed")
        client.close()
    assert len(server.asked) == 1


def test_cancelled_tasks_leave_the_client_usable() -> None:
    over = threading.Event()

    def said(request: Answering) -> None:
        if "slow" in request.path:
            over.wait(LONG)
        request.say(200, {"key": "a", "value": 1})

    async def ask(url: str) -> None:
        async with AsyncClient(url, connections=2) as client:
            for _ in range(10):
                tasks = [asyncio.create_task(client.get("orders", "slow")) for _ in range(4)]
                await asyncio.sleep(0.01)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                assert (await client.get("orders", "a", timeout=5)).value == 1

    with serving(said) as server:
        try:
            asyncio.run(ask(server.url))
        finally:
            over.set()


def test_who_waits_for_a_connection_waits_no_longer_than_told() -> None:
    left = threading.Event()

    async def ask(url: str) -> None:
        async with AsyncClient(url, connections=1) as client:
            async for _ in client.scan("orders", stream=True):
                with pytest.raises(NoAnswer):
                    await client.get("orders", "a", timeout=0.2)
                with pytest.raises(NoAnswer) as told:
                    await client.scan("orders", stream=True, timeout=0.2).to_list()
                assert not told.value.may_have_arrived
                break

    with serving(lambda request: lines(request, left)) as server:
        asyncio.run(asyncio.wait_for(ask(server.url), LONG))


def test_a_client_that_was_closed_opens_again() -> None:
    with serving(lambda request: request.say(200, {"key": "a", "value": 1})) as server:
        client = Client(server.url)
        for _ in range(2):
            assert client.get("orders", "a").value == 1
            client.close()
