"""A client that was used before a fork, in the parent and in the child."""

from __future__ import annotations

import subprocess
import sys
import threading

from local.settings import REPOSITORY
from tests.unit.queryable.client.fake_server import RequestHandler, serving

LONG = 10.0

READS = """\
import os, sys
from queryable import Client

client = Client(sys.argv[1])
client.get("orders", "before")
child = os.fork()
if not child:
    client.get("orders", "child")
    client.close()
    os._exit(0)
os.waitpid(child, 0)
client.get("orders", "parent")
"""

STREAMS = """\
import os, sys
from queryable import Client

changes = iter(Client(sys.argv[1]).changes("orders", "a"))
next(changes)
child = os.fork()
if not child:
    os._exit(next(changes).value)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
assert next(changes).value == 3
"""

ASYNCIO = """\
import asyncio, os, sys
from queryable import AsyncClient, BadUse

client = AsyncClient(sys.argv[1])
with asyncio.Runner() as runner:
    runner.run(client.get("orders", "before"))
    child = os.fork()
    if not child:
        try:
            asyncio.run(client.get("orders", "child"))
        except BadUse as error:
            assert "fork" in str(error)
            asyncio.run(client.close())
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    runner.run(client.get("orders", "parent"))
    runner.run(client.close())
"""


def run(program: str, url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, url],
        env={"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def ports_of_reads(program: str) -> list[int]:
    """The port of the client's connection, for each read of the program."""
    ports: list[int] = []

    def handle(request: RequestHandler) -> None:
        ports.append(request.client_address[1])
        request.respond(200, {"key": "a", "value": 1})

    with serving(handle) as server:
        run(program, server.url)
    return ports


def test_the_child_opens_its_own_connections() -> None:
    """Two processes on one connection get each other's answers."""
    before, child, parent = ports_of_reads(READS)
    assert child != before
    assert parent == before, "the connection of the parent stays open"


def test_the_child_opens_its_own_stream() -> None:
    resumed: list[str | None] = []
    has_two = threading.Event()

    def send_change(request: RequestHandler, number: int) -> None:
        data = b'{"key":"a","value":%d}' % number
        request.chunk(b"id: 0:%d\nevent: value\ndata: %b\n\n" % (number, data))

    def handle(request: RequestHandler) -> None:
        resumed.append(request.headers["last-event-id"])
        request.begin_chunked()
        if len(resumed) == 1:
            send_change(request, 1)
            has_two.wait(LONG)
            send_change(request, 3)
        else:
            has_two.set()
            send_change(request, 2)

    with serving(handle) as server:
        run(STREAMS, server.url)
    assert resumed == [None, "0:1"]


def test_an_async_client_stays_with_its_process() -> None:
    before, parent = ports_of_reads(ASYNCIO)
    assert parent == before
