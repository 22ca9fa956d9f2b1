"""Connections without a request, with half a request or with slow bytes are closed in time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.backends import Backend
from tests.support.client import TIMEOUT, key_path
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PATIENCE = 1.0  # s
PLAIN = f"GET {key_path('v', 'k')} HTTP/1.1\r\nHost: t\r\n\r\n".encode()
HEAD = f"GET {key_path('v', 'k')} HTTP/1.1\r\nHost: t\r\nX: ".encode()
BATCH = b"POST /views/v/batch HTTP/1.1\r\nHost: t\r\nContent-Length: 10000\r\n\r\n"
CHUNKED = b"POST /views/v/search HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
UNREAD = b"GET /views HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n"
CHANGES = (
    f"GET {key_path('v', 'k')}/changes HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n".encode()
)


@pytest.fixture(scope="module")
def backend(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Iterator[Backend]:
    topic = make_topic(1)
    writer.table(topic, {"k": {"is": "k"}})
    views = views_toml(v={"topic": topic})
    [backend] = module_deploy(views, request_timeout=str(PATIENCE)).start(1)
    yield backend
    assert "Traceback" not in backend.log()


def answered(port: int, first: bytes, trickle: bytes = b"") -> bytes:
    """The bytes received until the connection is closed, while `trickle` is sent repeatedly."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(PATIENCE / 10)
        connection.sendall(first)
        seen = b""
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            try:
                part = connection.recv(65536)
            except TimeoutError:
                with suppress(OSError):  # closed: the next `recv` shows it
                    connection.sendall(trickle)
                continue
            except ConnectionError:
                return seen
            if not part:
                return seen
            seen += part
    raise AssertionError(f"it is still open after {TIMEOUT} s: {seen!r}")


def test_a_connection_without_a_request_is_closed(backend: Backend) -> None:
    assert answered(backend.port, b"") == b""


@pytest.mark.parametrize("before", [b"", PLAIN], ids=["first", "later"])
@pytest.mark.parametrize("trickle", [b"", b"x"], ids=["silent", "byte-by-byte"])
def test_an_incomplete_head_is_rejected_in_time(
    backend: Backend, before: bytes, trickle: bytes
) -> None:
    answer = answered(backend.port, before + HEAD, trickle)
    assert answer.count(b'"is": "k"') == bool(before)
    assert b"HTTP/1.1 408 Request Timeout" in answer
    assert b'"code":"request-timeout"' in answer


@pytest.mark.parametrize("trickle", [b"", b"x"], ids=["silent", "byte-by-byte"])
@pytest.mark.parametrize("head", [BATCH, BATCH + b'{"keys":["k"]', CHUNKED + b"fff\r\n{"])
def test_an_incomplete_body_is_rejected_in_time(
    backend: Backend, head: bytes, trickle: bytes
) -> None:
    answer = answered(backend.port, head, trickle)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"is incomplete" in answer


@pytest.mark.parametrize("request_", [UNREAD, CHANGES], ids=["a page", "a stream"])
def test_an_unused_body_is_not_awaited(backend: Backend, request_: bytes) -> None:
    answer = answered(backend.port, request_)
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_each_request_has_its_own_time_limit(backend: Backend) -> None:
    """Between requests a connection may be idle for longer: gunicorn's keep-alive."""
    with socket.create_connection(("127.0.0.1", backend.port), timeout=TIMEOUT) as connection:
        for pause in (0, 2 * PATIENCE, 0):
            time.sleep(pause)
            for head, rest in ((PLAIN, b""), (PLAIN[:9], PLAIN[9:]), (PLAIN[:-1], PLAIN[-1:])):
                connection.sendall(head)
                if rest:
                    time.sleep(PATIENCE / 20)
                    connection.sendall(rest)
                answer = b""
                while b'"is": "k"' not in answer:
                    part = connection.recv(65536)
                    assert part, answer
                    answer += part
                assert answer.startswith(b"HTTP/1.1 200 ")


def test_an_upgrade_is_rejected(backend: Backend) -> None:
    """After an upgrade, these time limits would not apply."""
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    answer = answered(backend.port, b"GET /views HTTP/1.1\r\nHost: t\r\n" + upgrade + key)
    assert answer.split(b" ")[1] in (b"400", b"403", b"426", b"500"), answer
    h2c = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    request = b"GET /views HTTP/1.1\r\nHost: t\r\n" + h2c + b"Connection: close\r\n\r\n"
    assert not answered(backend.port, request).startswith(b"HTTP/1.1 101")
