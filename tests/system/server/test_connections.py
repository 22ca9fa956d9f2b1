"""Requests of a connection are answered in order, however they are fragmented. Requests on the fast
path, which bypasses gunicorn, keep the connection alive like all others."""

from __future__ import annotations

import http.client
import random
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import IO

import pytest

from tests.support.backends import Backend
from tests.support.client import TIMEOUT, Client, Response, key_path
from tests.support.deployment import views_toml
from tests.support.in_process.examples import view
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.point_batch import encode_keys
from tests.support.topics import Writer

KEEPALIVE = 1  # s
KEYS = [f"k{number}" for number in range(20)]


@pytest.fixture(scope="module")
def backend(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Iterator[Backend]:
    topic = make_topic(3)
    writer.table(topic, {key: {"is": key} for key in KEYS})
    backend = module_deploy(views_toml(v={"topic": topic})).new()
    backend.settings["GUNICORN_CMD_ARGS"] = f"--keep-alive {KEEPALIVE}"
    yield backend.start()
    assert "Traceback" not in backend.log()


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: t", *headers, "", ""]).encode()


def post(path: str, body: bytes) -> bytes:
    # the proxy sends no Content-Type
    kind = "" if path.startswith("/internal/") else "Content-Type: application/json\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: t\r\n{kind}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def requests() -> list[tuple[bytes, int, bytes]]:
    """Requests with and without the fast path, with their status and a part of their body."""
    paths = [key_path("v", key) for key in KEYS]
    plain = [
        (get(path), 200, b'"is": "%b"' % key.encode())
        for path, key in zip(paths, KEYS, strict=True)
    ]
    together = encode_keys(view("v"), [key.encode() for key in KEYS[:7]])
    return [
        *plain,
        (get(paths[1], "Accept: application/octet-stream"), 200, b"k1"),
        (get(paths[2], "Connection: keep-alive", "accept: */*"), 200, b"k2"),
        (get(key_path("v", "none")), 404, b"key-not-found"),
        (get("/views/v"), 200, b'"partitions":3'),
        (get("/nothing"), 404, b"no-such-resource"),
        (post("/internal/reads", together), 200, b"QTR2"),
        (post("/views/v/batch", b'{"keys":["k4"]}'), 200, b"k4"),
    ]


def answers_to(port: int, pieces: list[bytes], count: int) -> list[tuple[int, bytes]]:
    """The answers on one connection to which these pieces are sent one by one."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.003)  # so that pieces are mostly read separately; both must work
        stream = connection.makefile("rb")
        return [answer_of(stream) for _ in range(count)]


def answer_of(stream: IO[bytes]) -> tuple[int, bytes]:
    """The next answer's status and body."""
    status = int(stream.readline().split()[1])
    headers = http.client.parse_headers(stream)
    return status, stream.read(int(headers["Content-Length"]))


def cut(data: bytes, at: list[int]) -> list[bytes]:
    ends = [0, *sorted(at), len(data)]
    return [data[a:b] for a, b in pairwise(ends) if a < b]


@pytest.mark.parametrize("seed", range(12))
def test_fragmented_requests_are_answered_in_order(backend: Backend, seed: int) -> None:
    rng = random.Random(seed)
    sent = [rng.choice(requests()) for _ in range(30)]
    data = b"".join(request for request, _, _ in sent)
    if seed % 3 == 0:  # complete requests, some of them together
        sizes = [sum(len(request) for request, _, _ in sent[:n]) for n in range(len(sent))]
        at = sizes if seed == 0 else rng.sample(sizes, len(sizes) // 2)
    else:
        at = rng.sample(range(len(data)), 40)
    answers = answers_to(backend.port, cut(data, at), len(sent))
    for (request, status, holds), answer in zip(sent, answers, strict=True):
        assert answer[0] == status, (request, answer)
        assert holds in answer[1], request


def test_requests_can_arrive_byte_by_byte(backend: Backend) -> None:
    path = key_path("v", "k3")
    data = get(path) + get(path, "Accept: application/json") + get(path)
    answers = answers_to(backend.port, [data[n : n + 1] for n in range(len(data))], 3)
    assert [status for status, _ in answers] == [200] * 3
    assert all(b'"is": "k3"' in body for _, body in answers)


def test_a_body_that_looks_like_a_request_is_not_one(backend: Backend) -> None:
    other = get(key_path("v", "k7"))
    in_a_header = [f"GET {key_path('v', 'k6')} HTTP/1.1\r\nX: ".encode(), other]
    in_a_body = [post("/views/v/batch", other)[: -len(other)], other]
    answers = answers_to(backend.port, [*in_a_header, *in_a_body, other], 3)
    assert [status for status, _ in answers] == [200, 400, 200]
    assert b'"k6"' in answers[0][1]
    assert b'"k7"' in answers[2][1]


def test_point_reads_keep_a_connection_alive_and_idleness_ends_it(backend: Backend) -> None:
    with Client(backend.port) as client:
        used: list[Response] = []
        until = time.monotonic() + 2.5 * KEEPALIVE
        client.connect()
        connection = client._connection.sock
        # when this is answered, the first connection is set up: its requests take the fast path
        with Client(backend.port) as another:
            assert another.get("/health/live").status == 200
        while time.monotonic() < until:
            used.append(client.get(key_path("v", "k5")))
            assert client._connection.sock is connection
            time.sleep(KEEPALIVE / 10)
        assert {answer.status for answer in used} == {200}
        began = time.monotonic()
        connection.settimeout(5 * KEEPALIVE)
        assert connection.recv(1) == b""
        assert time.monotonic() - began > KEEPALIVE / 2


def test_a_proxy_with_the_latest_topology_is_answered_like_others(backend: Backend) -> None:
    etag = backend.get("/processors").headers["ETag"]
    lines = ["Accept: application/json", f"If-None-Match: {etag}"]

    def head(*more: str) -> list[bytes]:
        with socket.create_connection(("127.0.0.1", backend.port), timeout=TIMEOUT) as connection:
            for _ in range(2):  # on one connection
                connection.sendall(get("/processors", *lines, *more))
                stream = connection.makefile("rb")
                found = list(iter(stream.readline, b"\r\n"))
        return sorted(line.lower() for line in found if not line.startswith(b"Date:"))

    found = head()
    assert b"http/1.1 304 not modified\r\n" in found
    assert found == head("X-Other: 1")
