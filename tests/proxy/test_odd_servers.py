"""What discovery asks may be anything: whatever it sends, others are asked, and soon."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from local.waiting import wait_until
from tests.proxy.backends import CATCHING_UP, EPOCH, Cluster
from tests.proxy.conftest import StartNginx

pytestmark = pytest.mark.system

Say = Callable[[socket.socket, threading.Event], None]


def slowly(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not over.wait(0.1):
        connection.sendall(b"x")


def a_body_slowly(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not over.wait(0.1):
        connection.sendall(b" ")


def without_an_end(connection: socket.socket, over: threading.Event) -> None:
    while not over.is_set():
        connection.sendall(b"x" * 65536)


def many_headers(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000)
    over.wait(30)


class OddServer:
    """Says one thing to all who connect."""

    def __init__(self, say: Say) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.was_asked = threading.Event()
        self._over = threading.Event()
        self._say = say
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the other side has gone
            connection.recv(65536)
            self.was_asked.set()
            self._say(connection, self._over)

    def stop(self) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[[Say], OddServer]]:
    servers: list[OddServer] = []

    def start(say: Say) -> OddServer:
        servers.append(OddServer(say))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.mark.parametrize(
    ("say", "failure"),
    [
        (slowly, "read: timeout"),
        (a_body_slowly, "read: timeout"),
        (without_an_end, "read: a line that is too long"),
        (many_headers, "read: too many headers"),
    ],
)
def test_an_answer_has_a_bound_in_time_and_bytes(
    cluster: Cluster,
    start_nginx: StartNginx,
    serve: Callable[[Say], OddServer],
    say: Say,
    failure: str,
) -> None:
    odd = serve(say)
    good = cluster.backends[0]
    good.topology = lambda request: CATCHING_UP
    nginx = start_nginx(f"127.0.0.1:{odd.port},127.0.0.1:{good.port}", 1)
    assert odd.was_asked.wait(10)
    good.topology = good.processors
    wait_until(lambda: nginx.health()["epoch"] == EPOCH, 20, "the map of the other")
    name = f"127.0.0.1:{odd.port}"
    assert nginx.health().get("failures", {}).get(name) == failure
