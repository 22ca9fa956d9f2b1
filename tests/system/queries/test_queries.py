"""Queries of whole views, to three real instances: each of them returns complete answers."""

from __future__ import annotations

import http.client
import json
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.client import Client, Response
from tests.support.deployment import settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

PARTITIONS = 7
KEYS = sorted([*(f"key {n:04}" for n in range(1200)), "", "\x00", "é", "東京", "🛩"], key=str.encode)
WINDOWS = [(f"w{n % 40}", n * 1000) for n in range(400)]


@dataclass(frozen=True)
class Running:
    backends: list[Backend]
    nginx: Nginx

    @property
    def ports(self) -> list[int]:
        return [*(backend.port for backend in self.backends), self.nginx.port]


@pytest.fixture(scope="module")
def running(
    module_deploy: Deploy,
    make_topic: MakeTopic,
    writer: Writer,
) -> Iterator[Running]:
    words, windows = make_topic(PARTITIONS), make_topic(PARTITIONS)
    writer.table(words, {key: {"n": number} for number, key in enumerate(KEYS)})
    writer.table(words, {"deleted": 1})
    writer.table(words, {"deleted": None})
    # in changelogs of Kafka Streams, the bare key determines the partition
    for key, start in WINDOWS:
        record_key = key.encode() + struct.pack(">qi", start, 0)
        writer.send(windows, [(record_key, b"%d" % start)], partition=_partition(key))
    views = views_toml(
        v={"topic": words, "path": "/messages"},
        w={"topic": windows, "store": "window", "window_size": "1s"},
    )
    deployment = module_deploy(views)
    backends = deployment.start(3)
    yield Running(backends, deployment.proxy())
    for backend in backends:
        assert "Traceback" not in backend.log()


def _partition(key: str) -> int:
    return partition_of("murmur2")(key.encode(), PARTITIONS)


def ask(port: int, target: str, **headers: str) -> Response:
    with Client(port) as client:
        return client.get(f"/views/{target}", **headers)


def batch(port: int, keys: list[str]) -> Response:
    with Client(port) as client:
        return client.request("POST", "/views/v/batch", json.dumps({"keys": keys}).encode())


def pages(port: int, target: str) -> Iterator[list[Any]]:
    cursor = ""
    while True:
        answer = ask(port, f"{target}{f'&cursor={cursor}' if cursor else ''}")
        assert answer.status == 200, answer
        assert answer.headers["Topology-Epoch"]
        yield answer.json()["items"]
        cursor = answer.json()["next"]
        if cursor is None:
            return


def test_every_instance_lists_all_keys(running: Running) -> None:
    owners = running.backends[0].processors()["processors"]
    assert sorted(len(owner["topicPartitions"]["v"]) for owner in owners) == [2, 2, 3]
    for port in running.ports:
        for order in ("asc", "desc"):
            found = list(pages(port, f"v/keys?limit=500&order={order}"))
            assert [len(page) for page in found] == [500, 500, 205]
            items = [item for page in found for item in page]
            expected = [{"key": key, "value": {"n": n}} for n, key in enumerate(KEYS)]
            assert items == (expected if order == "asc" else expected[::-1])


def test_every_instance_sets_headers_and_applies_bounds(running: Running) -> None:
    for port in running.ports:
        answer = ask(port, "v/keys?prefix=key%20&from=key%200100&to=key%200102")
        assert [item["key"] for item in answer.json()["items"]] == [
            "key 0100", "key 0101", "key 0102",
        ]  # fmt: skip
        assert answer.headers["Lag"] == "0"
        assert int(answer.headers["Staleness"]) < 30_000
        assert answer.headers["Served-By"].endswith("; active")
        assert answer.headers["Content-Type"] == "application/json"
        assert ask(port, "v/windows").code == "wrong-store"
        assert ask(port, "v/keys?cursor=AAAA").code == "cursor-invalid"


def test_every_instance_streams_all_entries(running: Running) -> None:
    for port in running.ports:
        answer = ask(port, "v/keys", Accept="application/x-ndjson")
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        assert answer.headers["Topology-Epoch"]
        found = [json.loads(line) for line in answer.body.split(b"\n")[:-1]]
        assert found == [{"key": key, "value": {"n": n}} for n, key in enumerate(KEYS)]


def test_every_instance_lists_windows(running: Running) -> None:
    for port in running.ports:
        found = [
            i for page in pages(port, "w/windows?from=100000&to=299000&limit=77") for i in page
        ]
        assert found == [
            {"key": key, "start": start, "end": start + 1000, "sequence": 0, "value": start}
            for key, start in sorted(WINDOWS)
            if 100_000 <= start <= 299_000
        ]
        found = ask(port, "w/windows?key_from=w7&key_to=w7&order=desc&limit=2").json()["items"]
        assert [(item["key"], item["start"]) for item in found] == [("w7", 367000), ("w7", 327000)]
        assert ask(port, "w/keys").code == "wrong-store"


def test_every_instance_answers_count_and_top(running: Running) -> None:
    for port in running.ports:
        assert ask(port, "v/count?exact=true").json() == {"count": len(KEYS), "exact": True}
        assert ask(port, "w/count?exact=true").json() == {"count": len(WINDOWS), "exact": True}
        assert ask(port, "v/count").json() == {"count": len(KEYS), "exact": True}
        top = ask(port, "v/top?by=n&limit=3").json()["items"]
        assert top == [{"key": KEYS[n], "value": {"n": n}} for n in (1204, 1203, 1202)]


def test_every_instance_answers_batches(running: Running) -> None:
    keys = [*KEYS[::2], "deleted", "missing"]
    for port in running.ports:
        answer = batch(port, keys)
        assert answer.status == 200
        assert answer.json()["items"] == [
            {"key": key, "status": 200, "value": {"n": 2 * n}} for n, key in enumerate(KEYS[::2])
        ] + [{"key": key, "status": 404} for key in ("deleted", "missing")]


def test_the_proxy_does_not_expose_internal_routes(running: Running) -> None:
    with Client(running.nginx.port) as client:
        assert client.request("POST", "/internal/scan", b"{}").status == 404
    with Client(running.backends[0].port) as client:
        assert client.request("POST", "/internal/scan", b"{}").status == 400


def test_pages_are_complete_while_an_instance_joins_and_leaves(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """No key is repeated, and no key is missing that existed all the time."""
    topic = make_topic(6)
    keys = [f"{n:05}" for n in range(3000)]
    writer.table(topic, {key: 1 for key in keys if key[-1] != "7"})
    first, second, third = backends = deploy(views_toml(v={"topic": topic})).start(3)
    available = [first, third]
    cursor, seen, refused, page = "", [], 0, 0
    while cursor is not None:
        backend = available[page % len(available)]
        answer = ask(backend.port, f"v/keys?limit=40{f'&cursor={cursor}' if cursor else ''}")
        if answer.status == 503:
            assert answer.headers["Retry-After"] == "1"
            refused += 1
            assert refused < 400, answer.body
            backend.wait(lambda: True, "a moment")
            continue
        assert answer.status == 200, answer
        items = answer.json()["items"]
        assert items or answer.json()["next"] is None
        seen += [item["key"] for item in items]
        cursor = answer.json()["next"]
        page += 1
        if page == 10:
            writer.table(topic, {key: 1 for key in keys if key[-1] == "7"})
            second.terminate()
        if page == 30:
            second.wait_end()
            second.start()
            available = backends
        if page == 50:
            third.kill()
            available = [first, second]
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
    assert {key for key in keys if key[-1] != "7"} <= set(seen) <= set(keys)


def test_scans_after_an_instance_has_died(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    keys = [f"k{n}" for n in range(300)]
    writer.table(topic, dict.fromkeys(keys, 1))
    deployment = deploy(views_toml(v={"topic": topic}), session_timeout_ms="30000")
    *alive, victim = deployment.start(3)
    lost = next(
        set(one["topicPartitions"]["v"])
        for one in alive[0].processors()["processors"]
        if one["id"] == victim.id
    )
    assert 0 < len(lost) < PARTITIONS
    victim.kill()
    for backend in alive:
        items = batch(backend.port, keys).json()["items"]
        for key, item in zip(keys, items, strict=True):
            if _partition(key) in lost:
                assert item == {"key": key, "status": 503, "code": "owner-unreachable"}
            else:
                assert item == {"key": key, "status": 200, "value": 1}

    def send(request: tuple[Backend, str]) -> Response:
        return ask(request[0].port, f"v/{request[1]}", Accept="application/x-ndjson")

    # concurrently: each waits for the lost partitions until its time-out
    requests = list(product(alive, ("keys", "count", "count?exact=true", "top?by=n")))
    with ThreadPoolExecutor(len(requests)) as pool:
        for (_, target), answer in zip(requests, pool.map(send, requests), strict=True):
            assert (answer.status, answer.code) == (503, "owner-unreachable"), target
            assert answer.headers["Retry-After"] == "1"
            assert answer.json()["partition"] in lost


class Stream:
    """A stream of all entries of v, of which the first were read."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._connection.request("GET", "/views/v/keys", headers={"Accept": "application/x-ndjson"})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        self._begin = self._answer.read(100_000)

    def broken_off(self) -> bytes:
        """The bytes before the stream was aborted."""
        with pytest.raises(http.client.IncompleteRead) as broken:
            self._answer.read()
        self._connection.close()
        return self._begin + broken.value.partial


def test_a_stream_that_loses_an_owner_is_aborted(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """A regular end would mean that the stream is complete. Directly and through the proxy."""
    topic = make_topic(3)
    writer.table(topic, {f"{n:06}": "x" * 1500 for n in range(30_000)})
    deployment = deploy(views_toml(v={"topic": topic}), session_timeout_ms="30000")
    first, _, victim = deployment.start(3)
    nginx = deployment.proxy(first)
    streams = [Stream(port) for port in (first.port, nginx.port)]
    victim.kill()
    for stream in streams:
        lines = stream.broken_off().split(b"\n")[:-1]
        found = [json.loads(line)["key"] for line in lines]
        assert 0 < len(found) < 30_000
        assert found == [f"{n:06}" for n in range(len(found))]
    first.wait_log("a stream of keys of v ends early")


def test_a_slow_reader_uses_little_memory_and_gets_everything(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(3)
    writer.table(topic, {f"{n:06}": "x" * 1500 for n in range(40_000)})
    backends = deploy(views_toml(v={"topic": topic})).start(2)
    settle(backends)
    [worker] = backends[0].workers()

    def resident() -> int:
        status = Path(f"/proc/{worker}/status").read_text()
        return next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS"))

    # fills RocksDB's caches
    assert ask(backends[0].port, "v/keys", Accept="application/x-ndjson").status == 200
    before = resident()
    connection = http.client.HTTPConnection("127.0.0.1", backends[0].port, timeout=30)
    connection.request("GET", "/views/v/keys", headers={"Accept": "application/x-ndjson"})
    answer = connection.getresponse()
    greatest, lines = 0, 0
    while chunk := answer.read(1 << 20):
        lines += chunk.count(b"\n")
        greatest = max(greatest, resident())
    assert lines == 40_000
    assert greatest - before < 20_000, "kB; the whole answer has 60,000"
    connection.close()
