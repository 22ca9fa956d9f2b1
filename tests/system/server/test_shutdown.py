"""SIGTERM: a backend exits soon with status 0 and closed stores, whatever its clients do."""

from __future__ import annotations

import time

import pytest

from local.kafka.broker import Broker
from local.ports import free_ports
from tests.support.client import Client, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.stored import stored
from tests.support.topics import Writer, ends_of, fold, history

SOON = 8.0  # s; with idle connections it could take 30


def test_shutdown_does_not_wait_for_idle_connections_and_closes_stores(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(2)
    writer.table(topic, {f"k{n}": n for n in range(100)})
    backends = deploy(views_toml(v={"topic": topic})).start(2)
    backend = backends[0]
    held = [p["partition"] for p in backend.partitions("v")]
    log = history(broker.bootstrap_servers, topic, 2)
    clients = [Client(backend.port) for _ in range(8)]
    for number, client in enumerate(clients):
        # forwarded requests leave connections between the instances, too
        assert client.get(key_path("v", f"k{number}")).status == 200
        assert client.get("/views").status == 200
    silent = Client(backend.port)
    silent.connect()
    before = time.time_ns() // 1_000_000
    began = time.monotonic()
    backend.terminate()
    assert backend.wait_end() == 0
    assert time.monotonic() - began < SOON
    assert "Traceback" not in backend.log()
    for client in clients:
        with pytest.raises(OSError):  # noqa: PT011
            client.get("/views")
        client.close()
    silent.close()
    assert held
    for partition in held:
        on_disk = stored(backend.data_dir, "v", partition)
        assert on_disk.position == ends_of(log)[partition]
        assert on_disk.entries == fold(log[partition])
        assert on_disk.metadata.alive_at >= before
    settle([backends[1]])


def test_shutdown_is_fast_while_a_backend_waits_for_a_broker(deploy: Deploy) -> None:
    [port] = free_ports(1)
    views = views_toml(v={"topic": "t"})
    backend = deploy(views, bootstrap_servers=f"127.0.0.1:{port}").new().launch()
    backend.wait_listening()
    began = time.monotonic()
    backend.terminate()
    assert backend.wait_end() == 0
    assert time.monotonic() - began < SOON
    assert "Traceback" not in backend.log()
