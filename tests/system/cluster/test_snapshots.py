"""Snapshot transfers between instances that start together. Interrupted transfers: the next source
is used, or the log is read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from tests.support.backends import Backend
from tests.support.client import key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.stored import stored
from tests.support.tcp_faults import Link, TcpFaults
from tests.support.topics import Writer
from tests.system.cluster.test_standbys import roles

# 1.2 MB after compression: half a minute at this speed, and heartbeats still get through
TABLE = {f"key {n}": Random(n).randbytes(1_000).hex() for n in range(1_200)}
SLOW = Link(rate=40_000)


@pytest.fixture
def fault_proxies() -> Iterator[list[TcpFaults]]:
    """Fault proxies in front of three instances."""
    with ExitStack() as stack:
        yield [stack.enter_context(TcpFaults()) for _ in range(3)]


def snapshot_source(backend: Backend) -> str:
    """The instance from which a snapshot is being received; empty before the first bytes."""
    answer = backend.try_get("/instance")
    found = [] if answer is None else answer.json()["partitions"]
    return next((p["source"] for p in found if p.get("copied_bytes")), "")


def test_an_interrupted_snapshot_is_fetched_from_the_next_source(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, fault_proxies: list[TcpFaults]
) -> None:
    topic = make_topic(1)
    writer.table(topic, TABLE)
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="2", copy_threshold="1000")
    backends = [deployment.new(advertised=f"127.0.0.1:{proxy.port}") for proxy in fault_proxies]
    for backend, proxy in zip(backends, fault_proxies, strict=True):
        proxy.target = backend.port
    first, second, third = backends
    settle([first.launch(), second.launch()])
    some = {key_path("v", key): value for key, value in TABLE.items() if key.endswith("7")}
    by_id = dict(zip(("b1", "b2", "b3"), fault_proxies, strict=True))

    def interrupt_transfer(source: str) -> None:
        """Cuts the connections of the source after the first bytes of its snapshot."""
        third.wait(lambda: snapshot_source(third) == source, f"a snapshot from {source}")
        by_id[source].cut()

    def check_third() -> None:
        assert [path.name for path in (third.data_dir / "v").iterdir()] == ["0"]
        for path, value in some.items():
            answer = third.get(path)
            assert (answer.status, answer.json()["value"]) == (200, value)
            assert answer.headers["Served-By"] == "b3; standby"

    # The transfer from the standby is interrupted, and the active is the next source. The roles of
    # the first two may change until the third one joins.
    for id_ in ("b1", "b2"):
        by_id[id_].shape(down=SLOW)
    third.launch()
    third.wait(lambda: snapshot_source(third), "a snapshot")
    standby = snapshot_source(third)
    [active] = {"b1", "b2"} - {standby}
    assert roles(third, "topicPartitions")[active] == [0]
    by_id[active].heal()
    interrupt_transfer(standby)
    settle(backends)
    assert f"no snapshot from {standby}" in third.log()
    assert f"bytes from {active}" in third.log()
    [partition] = third.partitions("v")
    assert partition["started"] == len(TABLE)
    check_third()

    # both transfers are interrupted: the log is read
    third.kill()
    shutil.rmtree(third.data_dir)
    settle([first, second])
    by_id[active].shape(down=SLOW)
    third.launch()
    interrupt_transfer(standby)
    interrupt_transfer(active)
    for proxy in fault_proxies:
        proxy.heal()
    settle(backends)
    assert "received a snapshot" not in third.log()
    [partition] = third.partitions("v")
    assert (partition["started"], partition["position"]) == (0, len(TABLE))
    check_third()
    assert third.stop() == 0
    assert len(stored(third.data_dir, "v", 0).entries) == len(TABLE)


def test_of_two_new_instances_only_one_reads_the_topic(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    """The standby waits for the active, which is still catching up, and copies its store."""
    topic = make_topic(1)
    table = {f"key {n}": n for n in range(50_000)}
    writer.table(topic, table)
    deployment = deploy(views_toml(v={"topic": topic}), standby_replicas="1", copy_threshold="1000")
    both = [deployment.new().launch() for _ in range(2)]
    settle(both)
    started = [backend.partitions("v")[0]["started"] for backend in both]
    assert sorted(started) == [0, len(table)]
    for backend in both:
        answer = backend.get(key_path("v", "key 777"))
        assert (answer.status, answer.json()["value"]) == (200, 777)
        assert answer.headers["Served-By"].startswith(backend.id)
