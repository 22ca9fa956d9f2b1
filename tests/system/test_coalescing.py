"""Reads that travel together from nginx to real backends: each answer is what it would be alone,
byte for byte."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.client import TIMEOUT, key_path
from tests.conftest import MakeTopic
from tests.proxy.nginx import Nginx
from tests.system.backends import views_toml
from tests.system.conftest import Deploy
from tests.system.model import Writer

pytestmark = pytest.mark.system

PARTITIONS = 6
ODD_KEYS = ["a/b", "100%", "%61", " ", "a+b", "a?b", "a#b", "Zürich", "東京", "'\"\\", "a\nb"]
ROUNDS = 4


@pytest.fixture(scope="module")
def proxies(
    module_deploy: Deploy,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Nginx, Nginx]]:
    """One with a worker whose reads travel together, one whose reads do not."""
    words, numbers = make_topic(PARTITIONS), make_topic(PARTITIONS)
    writer.table(words, {key: {"is": key} for key in [f"k{n}" for n in range(40)] + ODD_KEYS})
    writer.table(words, {"large": "x" * 100_000, "gone": 1})
    writer.table(words, {"gone": None})
    writer.send(numbers, ((struct.pack(">q", n), str(n).encode()) for n in range(-5, 5)))
    views = views_toml(
        v={"topic": words, "path": "/messages"},
        n={"topic": numbers, "key": "int64", "value": "string"},
    )
    backends = module_deploy(views).start(2)
    addresses = ",".join(f"127.0.0.1:{backend.port}" for backend in backends)
    with ExitStack() as running:
        together, alone = (
            running.enter_context(
                Nginx(
                    tmp_path_factory.mktemp("nginx") / "prefix",
                    addresses,
                    {"QUERYABLE_PROXY_BATCHES": batches, "QUERYABLE_PROXY_READ_TIMEOUT": "10"},
                    workers=1,
                )
            )
            for batches in ("1", "0")
        )
        for nginx in (together, alone):
            nginx.wait_for_map(backends[0].processors()["epoch"])
        yield together, alone
        for backend in backends:
            assert "Traceback" not in backend.log()


def targets() -> list[str]:
    names = [f"k{n}" for n in range(60)] + ODD_KEYS + ["large", "gone"]
    return [
        *(key_path("v", name) for name in names),
        *(f"/messages/k{n}" for n in range(20)),
        *(f"/views/n/keys/{n}" for n in range(-7, 7)),
        "/views/n/keys/x",
        "/views/n/keys/007",
    ]


def answers(port: int, paths: list[str]) -> list[bytes]:
    """What comes back on one connection each, all of which ask before anybody listens."""
    with ExitStack() as opened:
        connections = []
        for _ in paths:
            connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
            connections.append(opened.enter_context(connection))
        for connection, path in zip(connections, paths, strict=True):
            connection.sendall(
                f"GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n".encode()
            )
        return [b"".join(iter(lambda c=c: c.recv(65536), b"")) for c in connections]


def parts(answer: bytes) -> tuple[list[bytes], bytes]:
    """Status line and headers, and the body. Without what differs from one moment to the next, and
    with the two that nginx itself places, in order."""
    head, _, body = answer.partition(b"\r\n\r\n")
    head = re.sub(rb"(?m)^(Date|staleness): .*$", rb"\1:", head)
    lines = head.split(b"\r\n")
    length = next(line for line in lines if line.startswith(b"Content-Length: "))
    lines.remove(length)
    return [*lines, length], body


def test_each_is_answered_as_if_it_were_alone(proxies: tuple[Nginx, Nginx]) -> None:
    together, alone = proxies
    paths = targets()
    expected = [parts(answer) for answer in answers(alone.port, paths)]
    statuses = {lines[0] for lines, _ in expected}
    assert {line.split()[1] for line in statuses} == {b"200", b"404", b"400"}
    for _ in range(ROUNDS):
        for path, said, alone_said in zip(
            paths, answers(together.port, paths), expected, strict=True
        ):
            assert parts(said) == alone_said, path
    entries = together.access_log(ROUNDS * len(paths))
    travelled = [entry for entry in entries if entry["batch"] is not None]
    # but for two leads, the large value, and what is no key
    assert len(travelled) > 0.8 * len(entries)
    assert max(entry["batch"] for entry in travelled) > 1
    assert {entry["status"] for entry in travelled} == {200, 404}
    assert all(entry["batch"] is None for entry in alone.access_log(len(paths)))


def test_values_are_right(proxies: tuple[Nginx, Nginx]) -> None:
    together, _ = proxies
    names = [f"k{n}" for n in range(40)] + ODD_KEYS
    said = answers(together.port, [key_path("v", name) for name in names])
    bodies = [json.loads(answer.partition(b"\r\n\r\n")[2]) for answer in said]
    assert bodies == [{"key": name, "value": {"is": name}} for name in names]


def test_backends_keep_the_route_from_clients(proxies: tuple[Nginx, Nginx]) -> None:
    for nginx in proxies:
        with nginx.client() as client:
            assert client.request("POST", "/internal/reads", b"/messages/k1").status == 404


def test_many_readers_for_long_leave_nothing_behind(proxies: tuple[Nginx, Nginx]) -> None:
    """nginx's memory after many batches is what it was after some."""
    together, _ = proxies

    def resident() -> int:
        [worker] = together.workers()
        status = Path(f"/proc/{worker}/status").read_text()
        [kilobytes] = re.findall(r"VmRSS:\s+(\d+) kB", status)
        return int(kilobytes)

    paths = [key_path("v", f"k{n}") for n in range(40)] * 2
    for _ in range(10):
        answers(together.port, paths)
    before = resident()
    for _ in range(60):
        answers(together.port, paths)
    assert resident() - before < 8_000
