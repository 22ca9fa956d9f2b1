"""Records appended over HTTP: formats, partitions, and reads of one's own writes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from local.kafka.broker import Broker, quiet_admin
from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import history, table_of

PARTITIONS = 3


@pytest.fixture(scope="module")
def topics(make_topic: MakeTopic) -> dict[str, str]:
    return {
        name: make_topic(PARTITIONS) for name in ("open", "numbers", "closed", "elsewhere", "grows")
    }


@pytest.fixture(scope="module")
def backends(module_deploy: Deploy, topics: dict[str, str]) -> Iterator[list[Backend]]:
    views = views_toml(
        v={"topic": topics["open"], "append": "on"},
        numbers={"topic": topics["numbers"], "key": "int64", "value": "float64", "append": "on"},
        closed={"topic": topics["closed"]},
        elsewhere={"topic": topics["elsewhere"], "partitioner": "crc32", "append": "on"},
        grows={"topic": topics["grows"], "append": "on"},
    )
    backends = module_deploy(views).start(2)
    yield backends
    for backend in backends:
        assert "Traceback" not in backend.log()


def append(backend: Backend, topic: str, body: Any) -> Response:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with Client(backend.port) as client:
        return client.request("POST", f"/topics/{topic}/records", raw)


def test_an_appended_record_can_be_read_at_once_from_any_instance(
    backends: list[Backend], topics: dict[str, str], broker: Broker
) -> None:
    keys = [f"key {n}" for n in range(15)] + ["a/b", "東京"]
    for turn in range(3):
        for number, key in enumerate(keys):
            writer, reader = backends[number % 2], backends[(number + turn) % 2]
            answer = append(writer, topics["open"], {"key": key, "value": {"turn": turn}})
            assert answer.status == 200, answer.body
            at = answer.json()
            bound = f"min_offset={at['partition']}:{at['offset']}"
            read = reader.get(f"{key_path('v', key)}?{bound}")
            assert read.status == 200, read.body
            assert read.json() == {"key": key, "value": {"turn": turn}}
            assert int(read.headers["Partition"]) == at["partition"]
    logs = history(broker.bootstrap_servers, topics["open"], PARTITIONS)
    assert table_of(logs) == {key: {"turn": 2} for key in keys}


def test_an_append_without_a_value_deletes_the_key(
    backends: list[Backend], topics: dict[str, str]
) -> None:
    append(backends[0], topics["open"], {"key": "gone", "value": None})
    path = key_path("v", "gone")
    kept = append(backends[0], topics["open"], {"key": "gone", "value": None}).json()
    answer = backends[1].get(f"{path}?min_offset={kept['partition']}:{kept['offset']}")
    assert answer.json() == {"key": "gone", "value": None}, "null is a JSON value"
    deleted = append(backends[1], topics["open"], {"key": "gone"}).json()
    bound = f"min_offset={deleted['partition']}:{deleted['offset']}"
    assert backends[0].get(f"{path}?{bound}").status == 404


def test_appends_in_other_formats_and_with_other_partitioners(
    backends: list[Backend], topics: dict[str, str]
) -> None:
    for value in (1.5, -0.25, "Infinity"):
        at = append(backends[0], topics["numbers"], {"key": -(2**62), "value": value}).json()
        path = f"/views/numbers/keys/{-(2**62)}?min_offset={at['partition']}:{at['offset']}"
        assert backends[1].get(path).json() == {"key": -(2**62), "value": value}
    for number in range(9):
        at = append(backends[1], topics["elsewhere"], {"key": f"k{number}", "value": 1}).json()
        path = key_path("elsewhere", f"k{number}")
        read = backends[0].get(f"{path}?min_offset={at['partition']}:{at['offset']}")
        assert (read.status, int(read.headers["Partition"])) == (200, at["partition"])


@pytest.mark.parametrize(
    ("topic", "body", "status", "code"),
    [
        ("closed", {"key": "a", "value": 1}, 404, "no-such-resource"),
        ("open", b"{", 400, "bad-request"),
        ("open", b"[]", 400, "bad-request"),
        ("open", {"value": 1}, 400, "bad-request"),
        ("open", {"key": "a", "value": 1, "partition": 2}, 400, "bad-request"),
        ("open", b'{"key":"a","key":"b"}', 400, "bad-request"),
        ("open", {"key": 1, "value": 1}, 400, "key-undecodable"),
        ("open", b'{"key":"a","value":' + b"[" * 3000 + b"]" * 3000 + b"}", 400, "bad-request"),
        ("numbers", {"key": 1, "value": "much"}, 400, "value-undecodable"),
        ("numbers", {"key": 2**63, "value": 1.0}, 400, "key-undecodable"),
        ("open", {"key": "a", "value": "x" * (1 << 20)}, 400, "body-too-large"),
    ],
)
def test_rejected_records_are_not_appended(
    backends: list[Backend],
    topics: dict[str, str],
    broker: Broker,
    topic: str,
    body: Any,
    status: int,
    code: str,
) -> None:
    before = sum(log.end for log in history(broker.bootstrap_servers, topics[topic], PARTITIONS))
    answer = append(backends[0], topics[topic], body)
    assert (answer.status, answer.code) == (status, code)
    after = sum(log.end for log in history(broker.bootstrap_servers, topics[topic], PARTITIONS))
    assert after == before


def test_other_methods_and_unknown_topics(backends: list[Backend]) -> None:
    assert append(backends[0], "nowhere", {"key": "a"}).code == "no-such-resource"
    refused = backends[0].get("/topics/nowhere/records")
    assert (refused.status, refused.headers["Allow"]) == (405, "POST")


def test_records_are_appended_to_new_partitions(
    backends: list[Backend], topics: dict[str, str], broker: Broker
) -> None:
    """Regression: the producer knew of them some minutes later, and each append was 500."""
    home = partition_of("murmur2")
    topic, count = topics["grows"], PARTITIONS + 2
    key = next(f"k{n}" for n in range(1000) if home(f"k{n}".encode(), count) >= PARTITIONS)
    for backend in backends:
        assert append(backend, topic, {"key": key, "value": 0}).status == 200
    admin = quiet_admin(broker.bootstrap_servers)
    [future] = admin.create_partitions([NewPartitions(topic, count)]).values()
    future.result(20)
    until = time.monotonic() + 10
    for backend in backends:
        partition = 0
        while partition < PARTITIONS:
            assert time.monotonic() < until
            answer = append(backend, topic, {"key": key, "value": 1})
            if answer.status == 503:
                assert answer.code == "topic-missing"
                assert answer.headers["Retry-After"] == "1"
            else:
                assert answer.status == 200, answer.body
                partition = answer.json()["partition"]
            time.sleep(0.02)


def test_a_record_that_the_broker_would_refuse_is_too_large(
    backends: list[Backend], topics: dict[str, str]
) -> None:
    answer = append(backends[0], topics["open"], {"key": "a", "value": "x" * 1_010_000})
    assert (answer.status, answer.code) == (400, "body-too-large")


def test_an_instance_without_a_partition_of_the_view_appends(
    deploy: Deploy, make_topic: MakeTopic, broker: Broker
) -> None:
    """Regression: it did not know how many partitions the topic has, or not any more."""
    topic = make_topic(1)
    backends = deploy(views_toml(v={"topic": topic, "append": "on"})).start(3)
    for backend in backends:
        backend.wait(
            lambda of=backend: append(of, topic, {"key": "k", "value": 1}).status == 200,
            "an append",
            20,
        )
    # some of them have no partition of the view, and learn of new ones all the same
    admin = quiet_admin(broker.bootstrap_servers)
    [grown] = admin.create_partitions([NewPartitions(topic, 8)]).values()
    grown.result(10)
    key = next(f"key {n}" for n in range(99) if partition_of("murmur2")(b"key %d" % n, 8) == 7)
    for backend in backends:
        backend.wait(
            lambda of=backend: append(of, topic, {"key": key}).json().get("partition") == 7,
            "an append to a new partition",
            20,
        )
