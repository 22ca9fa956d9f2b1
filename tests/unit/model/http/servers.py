"""Servers and proxies that send what a test says, byte by byte if it must be."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

HEADS = {
    "head": b"HTTP/1.1 200 OK\r\nX: ",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    "without length": b"HTTP/1.1 200 OK\r\n\r\n",
    "size of a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
    "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
    "trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    "error": b"HTTP/1.1 500 Wrong\r\nContent-Length: 100000\r\n\r\n",
}
"""What a server sends before it drips: the part of the answer that never ends."""


@contextmanager
def accepting(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Calls `serve` for each connection, in a thread. The URL of the server."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)


@contextmanager
def dripping(head: bytes) -> Iterator[str]:
    """A server that sends the head, then a byte every 50 ms until the client has disconnected."""

    def drip(connection: socket.socket) -> None:
        connection.sendall(head)
        connection.settimeout(0.05)
        while True:
            with suppress(TimeoutError):
                if not connection.recv(65536):
                    return
            connection.sendall(b"x")

    with accepting(drip) as url:
        yield url


@contextmanager
def speaking(answer: bytes) -> Iterator[str]:
    """A server that sends these bytes to each client, and closes the connection."""

    def speak(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        # a connection that is closed with unread bytes is reset, and the answer may be lost
        connection.settimeout(5)
        with suppress(OSError):
            while connection.recv(65536):
                pass

    with accepting(speak) as url:
        yield url


@dataclass
class Proxy:
    """A proxy for http and https. `heads`: the requests that it got. `refusal`: its answer, if it
    does not connect to servers."""

    url: str = ""
    heads: list[str] = field(default_factory=list)
    refusal: bytes = b""


@contextmanager
def proxy() -> Iterator[Proxy]:
    """It answers requests for http itself, with `by the proxy`."""
    running = Proxy()

    def serve(client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(65536)
        running.heads.append(head.decode())
        if running.refusal:
            client.sendall(running.refusal)
        elif head.startswith(b"CONNECT "):
            host, _, port = head.split()[1].decode().rpartition(":")
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                _copy(client, server)
                back.join()
        else:
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nby the proxy")

    with accepting(serve) as url:
        running.url = url
        yield running


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
