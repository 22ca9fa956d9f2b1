"""A client that never reads its answer loses it and its slot; a slow reader does not."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.client import TIMEOUT, key_path
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

KEYS = [f"k{number}" for number in range(12)]
VALUE = "x" * 900_000  # all values together are more than the kernel buffers on both sides
PATIENCE = 1.0  # s


@pytest.fixture(scope="module")
def backends(
    module_deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> Iterator[list[Backend]]:
    topic = make_topic(1, name="unread")
    writer.table(topic, dict.fromkeys(KEYS, VALUE))
    views = views_toml(v={"topic": topic})
    backends = module_deploy(views, send_timeout=str(PATIENCE), max_streams="1").start(2)
    yield backends
    for backend in backends:
        assert "Traceback" not in backend.log()


@contextmanager
def unread_connection(
    port: int, request: str, body: bytes = b"", accept: str = "*/*"
) -> Iterator[socket.socket]:
    """A connection on which a request was sent and nothing was read."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.settimeout(TIMEOUT)
        connection.connect(("127.0.0.1", port))
        headers = f"Host: t\r\nAccept: {accept}\r\nContent-Type: application/json\r\n"
        headers += f"Content-Length: {len(body)}\r\n\r\n"
        connection.sendall(f"{request} HTTP/1.1\r\n{headers}".encode() + body)
        yield connection


def has_begun(connection: socket.socket) -> bool:
    """Whether the answer is a stream; if not, there was no free slot."""
    status = connection.recv(12)
    assert status in (b"HTTP/1.1 200", b"HTTP/1.1 503")
    return status.endswith(b"200")


def can_stream(backend: Backend, path: str) -> bool:
    with unread_connection(backend.port, f"GET {path}") as connection:
        return has_begun(connection)


@contextmanager
def unread_stream(backend: Backend, path: str) -> Iterator[None]:
    """A stream of which only the beginning is read. Waits for a free slot."""
    with ExitStack() as stack:

        def opened() -> bool:
            connection = stack.enter_context(unread_connection(backend.port, f"GET {path}"))
            return has_begun(connection)

        wait_until(opened, TIMEOUT, "a free slot for a stream")
        yield


def last_sent(backend: Backend) -> object:
    answer = backend.get(key_path("v", "sent"))
    return answer.json()["value"] if answer.status == 200 else None


def wait_for_the_end(backend: Backend, ended: int) -> None:
    """Waits until the instance has closed more than `ended` connections."""

    def is_logged() -> bool:
        return backend.log().count("a client has read nothing") > ended

    backend.wait(is_logged, "the connection's end", 20)


def test_unread_change_streams_free_their_slots(backends: list[Backend], writer: Writer) -> None:
    path = f"{key_path('v', KEYS[0])}/changes"
    first = backends[0].get(key_path("v", KEYS[0]))
    [owner] = [b for b in backends if first.headers["Served-By"].startswith(f"{b.id};")]
    [other] = [b for b in backends if b is not owner]
    # one instance forwards the owner's stream: each has a slot for one stream
    for backend in (owner, other):
        with unread_stream(backend, path):
            assert not can_stream(backend, path)
            changes = [(KEYS[0].encode(), json.dumps(VALUE).encode())] * len(KEYS)
            writer.send("unread", [*changes, (b"sent", json.dumps(backend.id).encode())])
            wait_until(lambda b=backend: can_stream(b, path), 20, "the slot to be freed")
        # else the changes that are still to come end the next stream
        owner.wait(lambda b=backend: last_sent(owner) == b.id, "the last change", 20)
    assert owner.get(key_path("v", KEYS[0])).status == 200


@pytest.mark.parametrize(
    ("request_line", "body"),
    [("GET /views/v/keys", b""), ("POST /views/v/batch", json.dumps({"keys": KEYS}).encode())],
    ids=["a stream of lines", "one long answer"],
)
def test_other_unread_answers_are_aborted(
    backends: list[Backend], request_line: str, body: bytes
) -> None:
    [backend, _] = backends
    ended = backend.log().count("a client has read nothing")
    with unread_connection(backend.port, request_line, body, "application/x-ndjson") as unread:
        wait_for_the_end(backend, ended)
        received = len(b"".join(iter(lambda: _received(unread), b"")))
    assert 0 < received < len(KEYS) * len(VALUE)
    assert backend.get(key_path("v", KEYS[1])).status == 200


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 20)
    except ConnectionResetError:
        return b""


def test_a_slow_reader_gets_the_whole_answer(backends: list[Backend]) -> None:
    [backend, _] = backends
    ended = backend.log().count("a client has read nothing")
    whole = len(KEYS) * len(VALUE)
    body = json.dumps({"keys": KEYS}).encode()
    began, received = time.monotonic(), 0
    with unread_connection(backend.port, "POST /views/v/batch", body) as slow:
        while received < whole:
            part = slow.recv(200_000)
            assert part, received
            received += len(part)
            # each pause is far below the time-out; all together are more than twice as long
            time.sleep(PATIENCE / 20)
    assert time.monotonic() - began > 2 * PATIENCE
    assert backend.log().count("a client has read nothing") == ended
