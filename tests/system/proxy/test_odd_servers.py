"""A server that sends invalid responses does not keep discovery from reading another one."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from local.waiting import wait_until
from tests.system.proxy.backends import CATCHING_UP, EPOCH, Cluster
from tests.system.proxy.conftest import StartNginx

Send = Callable[[socket.socket, threading.Event], None]


def status_slowly(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not over.wait(0.1):
        connection.sendall(b"x")


def body_slowly(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not over.wait(0.1):
        connection.sendall(b" ")


def endless_line(connection: socket.socket, over: threading.Event) -> None:
    while not over.is_set():
        connection.sendall(b"x" * 65536)


def many_headers(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000)
    over.wait(30)


class OddServer:
    """Sends the same bytes to every client."""

    def __init__(self, send: Send) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.has_request = threading.Event()
        self._over = threading.Event()
        self._send = send
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the client has disconnected
            connection.recv(65536)
            self.has_request.set()
            self._send(connection, self._over)

    def stop(self) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[[Send], OddServer]]:
    servers: list[OddServer] = []

    def start(send: Send) -> OddServer:
        servers.append(OddServer(send))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.mark.parametrize(
    ("send", "failure"),
    [
        (status_slowly, "read: timeout"),
        (body_slowly, "read: timeout"),
        (endless_line, "read: line too long"),
        (many_headers, "read: too many headers"),
    ],
)
def test_a_response_is_limited_in_time_and_bytes(
    cluster: Cluster,
    start_nginx: StartNginx,
    serve: Callable[[Send], OddServer],
    send: Send,
    failure: str,
) -> None:
    odd = serve(send)
    good = cluster.backends[0]
    good.behave_topology = lambda request: CATCHING_UP
    nginx = start_nginx(f"127.0.0.1:{odd.port},127.0.0.1:{good.port}", 1)
    assert odd.has_request.wait(10)
    good.behave_topology = good.processors
    wait_until(lambda: nginx.health()["epoch"] == EPOCH, 20, "the other server's topology")
    name = f"127.0.0.1:{odd.port}"
    assert nginx.health().get("failures", {}).get(name) == failure
