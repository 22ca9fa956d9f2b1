"""A transaction that stays open: what readers see of the records after it, and what is said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from local.kafka.broker import Broker
from tests.support.backends import Backend
from tests.support.client import Response
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer


@pytest.fixture
def opened(broker: Broker, make_topic: MakeTopic, writer: Writer) -> Iterator[tuple[Producer, str]]:
    """A producer whose transaction in the topic is open. Another one writes after it."""
    topic = make_topic(1)
    writer.table(topic, {"a": 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer, topic
    producer.abort_transaction(30)


def begin(producer: Producer, topic: str, writer: Writer) -> None:
    producer.produce(topic, b"2", b"b")
    assert producer.flush(30) == 0
    writer.table(topic, {"a": 3})


def is_stale(answer: Response) -> bool:
    return answer.headers["Staleness"] == "unknown" or int(answer.headers["Staleness"]) > 3000


def test_an_open_transaction_is_stale(
    opened: tuple[Producer, str], deploy: Deploy, writer: Writer
) -> None:
    """Regression: reads had Lag 0, a Staleness below a second, and passed max_staleness=1s,
    although another producer had committed a newer value."""
    producer, topic = opened
    [backend] = deploy(views_toml(things={"topic": topic, "path": "/things"})).start()
    backend.wait(lambda: backend.get("/things/a?max_staleness=1s").status == 200, "a fresh read")
    begin(producer, topic, writer)
    backend.wait(lambda: is_stale(backend.get("/things/a")), "the staleness")
    answer = backend.get("/things/a?max_lag=0")
    assert (answer.status, answer.json()["value"], answer.headers["Lag"]) == (200, 1, "0")
    refused = backend.get("/things/a?max_staleness=1s")
    assert (refused.status, refused.code) == (503, "too-stale")
    backend.wait(lambda: held_for(backend) > 2000, "the age of the transaction")
    backend.stop()
    backend.start()
    backend.wait(lambda: backend.get("/things/a").status == 200, "the restarted instance")
    assert backend.get("/things/a").headers["Staleness"] == "unknown"
    assert backend.get("/things/a?max_staleness=1h").status == 503


def test_it_is_fresh_again_when_the_transaction_has_ended(
    opened: tuple[Producer, str], deploy: Deploy, writer: Writer
) -> None:
    producer, topic = opened
    begin(producer, topic, writer)
    [backend] = deploy(views_toml(things={"topic": topic, "path": "/things"})).start()
    backend.wait(lambda: backend.get("/things/a").status == 200, "a read")
    assert backend.get("/things/a").headers["Staleness"] == "unknown"
    producer.commit_transaction(30)
    producer.begin_transaction()  # for the end of the fixture
    backend.wait(lambda: backend.get("/things/a?max_staleness=1s").status == 200, "a fresh read")
    assert backend.get("/things/a").json()["value"] == 3
    backend.wait(lambda: held_for(backend) == 0, "the end of the transaction")


def held_for(backend: Backend) -> int:
    """ms, 0: no transaction is open."""
    [partition] = backend.get("/instance").json()["partitions"]
    return partition["open_transaction"] or 0
