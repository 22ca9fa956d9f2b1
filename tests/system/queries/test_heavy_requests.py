"""No single request, and no client with many requests, keeps an instance from answering others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import orjson
import pytest

from backend.wire.scan import Query
from backend.wire.scan_codec import ROWS, ScanRequest, encode_request
from tests.support.backends import Backend
from tests.support.client import TIMEOUT, Client, key_path
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

KEYS = [f"k{number}" for number in range(2000)]
STREAMS = 300  # more than the connections that an instance has for forwards


@pytest.fixture(scope="module")
def backends(
    module_deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> Iterator[list[Backend]]:
    topic = make_topic(2)
    writer.table(topic, {key: {"n": number} for number, key in enumerate(KEYS)})
    backends = module_deploy(views_toml(v={"topic": topic})).start(2)
    yield backends
    for backend in backends:
        assert "Traceback" not in backend.log()


def question(**changes: object) -> bytes:
    fields = orjson.loads(encode_request(ScanRequest("v", "h", 2, ROWS, Query(), 10), [0], None))
    return orjson.dumps({**fields, **changes})


HEAVY = {
    "a deep field": ("GET", f"/views/v/top?by={'a.' * 16_000}a", b""),
    "many parameters": ("GET", f"/views/v/keys?{'&' * 30_000}", b""),
    "a negative limit": ("POST", "/internal/scan", question(limit=-6)),
    "a partition a hundred thousand times": (
        "POST", "/internal/scan", question(partitions=[0] * 100_000)),
    "a batch of empty lists": (
        "POST", "/views/v/batch", b'{"keys":[%b]}' % b",".join([b"[]"] * 600_000)),
    "a search of empty lists": (
        "POST", "/views/v/search", b'{"query":[%b]}' % b",".join([b"[]"] * 300_000)),
    "strings without end": ("POST", "/internal/batch", b"\xff" * 4 + bytes(1 << 20)),
    "a million reads": ("POST", "/internal/reads", b"\n" * 1_000_000),
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_requests_are_rejected(backends: list[Backend], name: str) -> None:
    method, path, body = HEAVY[name]
    [backend, _] = backends
    with Client(backend.port) as client:
        answer = client.request(method, path, body=body)
        assert answer.status == 400, answer
        assert answer.headers["content-type"] == "application/problem+json"
        assert client.get(key_path("v", "k7")).status == 200


def test_forwarded_streams_leave_connections_for_other_forwards(backends: list[Backend]) -> None:
    first, other = backends
    with Client(other.port) as client:
        forwarded_keys = [key for key in KEYS[:20] if is_of(client.get(key_path("v", key)), other)]
    assert forwarded_keys
    with ExitStack() as stack:
        for number in range(STREAMS):
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", first.port), timeout=TIMEOUT)
            )
            path = key_path("v", forwarded_keys[number % len(forwarded_keys)])
            connection.sendall(f"GET {path}/changes HTTP/1.1\r\nHost: t\r\n\r\n".encode())
            seen = b""
            while b"event: value" not in seen:
                part = connection.recv(65536)
                assert part, seen
                seen += part
        with Client(first.port) as client:
            for key in forwarded_keys:
                answer = client.get(key_path("v", key))
                assert (answer.status, is_of(answer, other)) == (200, True)


def is_of(answer: object, backend: Backend) -> bool:
    served_by: str = answer.headers["served-by"]  # type: ignore[attr-defined]
    return served_by.partition(";")[0] == backend.id
