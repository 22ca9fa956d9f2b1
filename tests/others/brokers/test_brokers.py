"""One deployment with a broker of each version: what it writes, reads and follows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.waiting import wait_until
from tests.others.brokers.running import broker_of
from tests.others.brokers.versions import JAR_SETS
from tests.others.programs import need, need_java
from tests.others.tool import run_queryable, views_by_init
from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import Deployment, settle
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

TOPIC = "orders"
PARTITIONS = 6
TABLE = {f"order {n}": {"total": n} for n in range(200)}
DELETED, ABORTED = "order deleted", "order aborted"
PATHS = {key_path(TOPIC, key): value for key, value in TABLE.items()}


@pytest.fixture(params=JAR_SETS)
def version(request: pytest.FixtureRequest) -> str:
    need_java()
    need("mvn")
    return str(request.param)


def test_a_deployment_works_with_a_broker_of_the_version(version: str, tmp_path: Path) -> None:
    with broker_of(version, tmp_path / "broker") as broker:
        servers = broker.bootstrap_servers
        create_topics(
            quiet_admin(servers), [Topic(TOPIC, PARTITIONS, {"cleanup.policy": "compact"})]
        )
        transactions = Writer(servers, **{"transactional.id": "orders"})
        _write(Writer(servers), transactions)
        views = views_by_init(tmp_path, servers, TOPIC)
        assert 'partitioner = "murmur2"  # ' in views
        found = run_queryable(tmp_path, "check", "--bootstrap-servers", servers)
        assert f"topic {TOPIC}" in found
        with Deployment(
            tmp_path / "deployment", servers, views + 'append = "on"\n', standby_replicas="1"
        ) as deployment:
            first, second = deployment.start(2)
            ports = [deployment.proxy().port, first.port, second.port]
            _check_all(ports, TABLE)
            _append(ports)
            _check_transactions(ports, transactions, Writer(servers))
            _check_membership(deployment, first, second)
            _check_restart(broker, deployment)


def _write(writer: Writer, transactions: Writer) -> None:
    """The table, a deleted key, and records of transactions that are committed and aborted."""
    keys = list(TABLE)
    writer.table(TOPIC, {DELETED: 1, **{key: TABLE[key] for key in keys[:100]}})
    writer.table(TOPIC, {DELETED: None})
    transactions.init_transactions()
    transactions.transaction(True, TOPIC, {key: TABLE[key] for key in keys[100:]})
    transactions.transaction(False, TOPIC, {ABORTED: 1, keys[0]: {"total": -1}})


def _get(port: int, key: str, parameters: str = "") -> Response:
    with Client(port) as client:
        return client.get(key_path(TOPIC, key) + parameters)


def _check_all(ports: list[int], table: Mapping[str, Any]) -> None:
    for port in ports:
        with Client(port) as client:
            assert client.get(f"/views/{TOPIC}/count").json()["count"] == len(table)
        for key, value in table.items():
            answer = _get(port, key)
            assert (answer.status, answer.json().get("value")) == (200, value), key
        for key in (DELETED, ABORTED, "missing"):
            answer = _get(port, key)
            assert (answer.status, answer.code) == (404, "key-not-found")
            assert int(answer.headers["Offset"]) > 0


def _append(ports: list[int]) -> None:
    """A record that one instance appends can be read from all."""
    for number, port in enumerate(ports):
        body = json.dumps({"key": "appended", "value": number}).encode()
        with Client(port) as client:
            answer = client.request("POST", f"/topics/{TOPIC}/records", body)
        assert answer.status == 200, answer
        at = answer.json()
        for reader in ports:
            read = _get(reader, "appended", f"?min_offset={at['partition']}:{at['offset']}")
            assert (read.status, read.json()["value"]) == (200, number)


def _check_transactions(ports: list[int], transactions: Writer, writer: Writer) -> None:
    """Records of an open transaction are not read, nor those behind them, until it ends."""
    transactions.begin()
    transactions.table(TOPIC, {"open": 1})
    writer.table(TOPIC, {"open": 2})
    port = ports[0]

    def is_stale() -> bool:
        staleness = _get(port, "open").headers["Staleness"]
        return staleness == "unknown" or int(staleness) > 3000

    wait_until(is_stale, 60, "the staleness of an open transaction")
    assert _get(port, "open").status == 404
    transactions.commit()
    wait_until(
        lambda: all(_value(port, "open") == 2 for port in ports), 60, "the records behind it", 0.1
    )


def _value(port: int, key: str) -> Any:
    answer = _get(port, key)
    return answer.json()["value"] if answer.status == 200 else answer.status


def _is_right(path: str, answer: Response) -> str:
    if answer.status == 503:
        return ""
    return "" if answer.status == 200 and answer.json()["value"] == PATHS[path] else "wrong"


def _check_membership(deployment: Deployment, first: Backend, second: Backend) -> None:
    """An instance joins, another one is killed, and no answer is wrong."""
    with ReadLoop([second.port], list(PATHS), _is_right, threads=1) as loop:
        third = deployment.new().launch()
        settle([first, second, third])
        loop.all_again(60)
        first.kill()
        settle([second, third])
        loop.all_again(60)


def _check_restart(broker: Broker, deployment: Deployment) -> None:
    """Instances answer while the broker restarts, and then follow it again."""
    running = [backend for backend in deployment.all if backend.is_running]
    with ReadLoop([running[0].port], list(PATHS), _is_right, threads=1) as loop:
        broker.stop()
        loop.all_again(60)
        broker.start(120)
        Writer(broker.bootstrap_servers).table(TOPIC, {"after the restart": 1})
        wait_until(
            lambda: all(_value(backend.port, "after the restart") == 1 for backend in running),
            120, "the record after the restart", 0.1,
        )  # fmt: skip
        loop.all_again(60)
