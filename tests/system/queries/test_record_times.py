"""When the record of a value was written, and its headers, through nginx and from each instance."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition

from local.kafka.broker import Broker, quiet_admin
from local.waiting import wait_until
from queryable import Client as QueryableClient
from queryable import DatedEntry
from tests.support.backends import Backend
from tests.support.client import Client, key_path
from tests.support.deployment import settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic

KEYS = [f"k{n}" for n in range(12)]
FIRST = 1_400_000_000_000  # ms
HEADERS = [("trace-id", b"4bf9"), ("trace-id", "Zürich".encode()), ("raw", b"\xff\0"), ("no", None)]
SHOWN = [
    {"name": "trace-id", "value": {"text": "4bf9"}},
    {"name": "trace-id", "value": {"text": "Zürich"}},
    {"name": "raw", "value": {"base64": "/wA="}},
    {"name": "no", "value": None},
]


class Started(NamedTuple):
    backends: list[Backend]
    nginx: Nginx
    topics: list[str]

    @property
    def ports(self) -> list[int]:
        return [*(backend.port for backend in self.backends), self.nginx.port]


def time_of(n: int) -> int:
    return FIRST + 1_000 * n


@pytest.fixture(scope="module")
def started(module_deploy: Deploy, make_topic: MakeTopic, broker: Broker) -> Iterator[Started]:
    words, numbers, windows, anywhere = topics = [make_topic(4) for _ in range(4)]
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for n, key in enumerate(KEYS):
        at: dict[str, Any] = {"timestamp": time_of(n), "headers": HEADERS}
        producer.produce(words, b"%d" % n, key.encode(), **at)
        producer.produce(numbers, b"%d" % n, struct.pack(">q", n), **at)
        window = key.encode() + struct.pack(">qi", 60_000, 0)
        producer.produce(windows, b"%d" % n, window, partition=0, **at)
        producer.produce(anywhere, b"%d" % n, key.encode(), partition=n % 4, **at)
    assert producer.flush(20) == 0
    views = views_toml(
        v={"topic": words, "path": "/words"},
        n={"topic": numbers, "key": "int64"},
        w={"topic": windows, "store": "window", "window_size": "1m", "partitioner": "none"},
        a={"topic": anywhere, "partitioner": "none"},
    )
    deployment = module_deploy(views)
    backends = deployment.start(2)
    settle(backends)
    yield Started(backends, deployment.proxy(), topics)
    for backend in backends:
        assert "Traceback" not in backend.log()


def test_a_point_read_says_when_the_record_was_written(started: Started) -> None:
    for port in started.ports:
        with Client(port) as client:
            for n, key in enumerate(KEYS):
                for path in (
                    key_path("v", key),
                    f"/words/{key}",
                    f"/views/n/keys/{n}",
                    key_path("a", key),
                    f"/words/{key}?stale=allow",
                ):
                    answer = client.get(path)
                    assert (answer.status, answer.json()["value"]) == (200, n)
                    assert answer.headers["Record-Timestamp"] == str(time_of(n)), path
                    assert "timestamp" not in answer.json()
            octets = client.request("GET", "/words/k3", headers={"Accept": "*/octet-stream"})
            assert octets.status == 406
            octets = client.request(
                "GET", "/words/k3", headers={"Accept": "application/octet-stream"}
            )
            assert octets.headers["Record-Timestamp"] == str(time_of(3))
            found = client.request("POST", "/views/v/search", b'{"query":"k4"}')
            assert found.headers["Record-Timestamp"] == str(time_of(4))
            assert "Record-Timestamp" not in client.get("/words/none").headers


def test_batches_pages_and_changes_have_timestamps_where_asked_for(started: Started) -> None:
    expected = {key: time_of(n) for n, key in enumerate(KEYS)}
    body = json.dumps({"keys": [*KEYS, "none"]}).encode()
    for port in started.ports:
        with Client(port) as client:
            for view in "va":
                items = client.request("POST", f"/views/{view}/batch?timestamps=true", body).json()[
                    "items"
                ]
                assert items.pop() == {"key": "none", "status": 404}
                assert {item["key"]: item["timestamp"] for item in items} == expected
                [item, *_] = client.request("POST", f"/views/{view}/batch", body).json()["items"]
                assert item == {"key": "k0", "status": 200, "value": 0}
                page = client.get(f"/views/{view}/keys?timestamps=true").json()["items"]
                assert {item["key"]: item["timestamp"] for item in page} == expected
                [item] = client.get(f"/views/{view}/keys?limit=1").json()["items"]
                assert item == {"key": "k0", "value": 0}
            lines = client.request(
                "GET", "/views/v/keys?timestamps=true", headers={"Accept": "application/x-ndjson"}
            )
            dated = [json.loads(line) for line in lines.body.splitlines()]
            assert {item["key"]: item["timestamp"] for item in dated} == expected
            windows = client.get("/views/w/windows?timestamps=true").json()["items"]
            assert {item["key"]: item["timestamp"] for item in windows} == expected
            wrong = client.get("/views/v/keys?timestamps=yes")
            assert (wrong.status, wrong.code) == (400, "bad-parameter")


def test_the_client_has_timestamps_and_headers(started: Started) -> None:
    for port in started.ports:
        with QueryableClient(f"http://127.0.0.1:{port}") as client:
            answer = client.get("v", "k5", headers=True)
            assert (answer.value, answer.timestamp, answer.headers) == (5, time_of(5), HEADERS)
            assert client.get("v", "k5").headers is None
            dated = client.get_many("v", ["k1", "k2", "none"], timestamps=True)
            assert [each.timestamp for each in dated] == [time_of(1), time_of(2), None]
            entries = list(client.scan_dated("v", prefix="k1"))
            assert entries == [
                DatedEntry("k1", 1, time_of(1)),
                DatedEntry("k10", 10, time_of(10)),
                DatedEntry("k11", 11, time_of(11)),
            ]
            with closing(iter(client.changes("v", "k6", timestamps=True))) as changes:
                assert next(changes).timestamp == time_of(6)


def test_headers_are_read_from_the_topic(started: Started, broker: Broker) -> None:
    for port in started.ports:
        with Client(port) as client:
            for path in ("/words/k7", "/views/n/keys/7"):
                answer = client.get(f"{path}?headers=true")
                assert answer.json()["headers"] == SHOWN
                assert answer.headers["Record-Timestamp"] == str(time_of(7))
                assert "ETag" not in answer.headers
            missing = client.get("/words/none?headers=true")
            assert (missing.status, missing.code) == (404, "key-not-found")
            for path in (
                "/views/a/keys/k1?headers=true",
                "/words/k7?headers=true&partials=all",
                "/words/k7?headers=1",
            ):
                wrong = client.get(path)
                assert (wrong.status, wrong.code) == (400, "bad-parameter"), path
    [numbers] = started.topics[1:2]
    admin = quiet_admin(broker.bootstrap_servers)
    ends = [TopicPartition(numbers, partition, -1) for partition in range(4)]
    for future in admin.delete_records(ends).values():
        future.result(10)

    def is_gone() -> bool:
        with Client(started.nginx.port) as client:
            answer = client.get("/views/n/keys/7?headers=true")
            assert answer.status == 200
            return answer.json() == {"key": 7, "value": 7, "headers": None}

    wait_until(is_gone, 20, "the record to be gone")
