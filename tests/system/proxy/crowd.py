"""Many simultaneous clients, and a backend that delays its first answer."""

from __future__ import annotations

import http.client
import random
import re
import select
import socket
import threading
from collections.abc import Sequence
from typing import Any

from local.waiting import wait_until
from tests.support.client import TIMEOUT, Response
from tests.support.nginx import Nginx
from tests.system.proxy.backends import Answer, Backend, Request
from tests.system.proxy.conftest import KEY

# longer than any test keeps a gate closed: it must not count as a failure of the backend
PATIENT = {"QUERYABLE_PROXY_READ_TIMEOUT": "10"}
LINE = f"GET {KEY} HTTP/1.1"


class Crowd:
    """Clients that have sent one request each, and have not read the answer yet."""

    def __init__(self, nginx: Nginx) -> None:
        self._nginx = nginx
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect(*range(len(self.sockets)))

    def send(self, *lines: str, headers: str = "") -> None:
        for line in lines:
            connection = socket.create_connection(("127.0.0.1", self._nginx.port), timeout=TIMEOUT)
            self.sockets.append(connection)
            connection.sendall(f"{line}\r\nHost: t\r\n{headers}\r\n".encode())

    def read_again(self, line: str, times: int) -> None:
        """Each client that gets an answer sends the next request, until there are `times` of
        them."""
        for _ in range(times):
            ready = select.select(self.sockets, [], [], TIMEOUT)[0]
            assert ready, f"no answer within {TIMEOUT} s"
            connection = random.choice(ready)
            assert _read_answer(connection).status == 200
            connection.sendall(f"{line}\r\nHost: t\r\n\r\n".encode())

    def disconnect(self, *indices: int) -> None:
        for index in indices:
            self.sockets[index].close()

    def answers(self, *indices: int) -> list[Response]:
        return [_read_answer(self.sockets[i]) for i in indices or range(len(self.sockets))]


def _read_answer(connection: socket.socket) -> Response:
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return Response(answer.status, answer.headers, answer.read())


class Gate:
    """Holds a backend's next request until it is opened; later requests pass."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._open = threading.Event()
        self._first = True
        backend.behave = self._behave

    def _behave(self, request: Request) -> Answer:
        if self._first:
            self._first = False
            assert self._open.wait(30)
        return self._backend.answer(request)

    def open(self) -> None:
        self._open.set()


def reads(nginx: Nginx, backend: Backend) -> Any:
    """The worker's queue for the backend."""
    found = next(b for b in nginx.health()["backends"] if b["id"] == backend.name)
    return found["reads"] or {"waiting": 0, "in_flight": 0}


def wait_waiting(nginx: Nginx, backend: Backend, count: int) -> None:
    wait_until(lambda: reads(nginx, backend)["waiting"] == count, 10, f"{count} reads to wait")


def send_behind_first(crowd: Crowd, nginx: Nginx, active: Backend, lines: Sequence[str]) -> None:
    """Sends a read to the active, and then further ones, which wait for it."""
    crowd.send(LINE)
    wait_until(lambda: len(active.requests) == 1, 10, "the first read")
    crowd.send(*lines)
    wait_waiting(nginx, active, len(lines))


def value(answer: Response) -> Any:
    """The body that a fake backend has given, alone or as the value of a stored key."""
    body = answer.json()
    return body["value"] if isinstance(body, dict) and "value" in body else body


def metric(nginx: Nginx, name: str) -> float:
    with nginx.client() as client:
        text = client.get("/proxy/metrics").body.decode()
    [value] = re.findall(rf"^queryable_proxy_{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(value)
