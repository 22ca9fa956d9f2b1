"""Reading the headers of messages, whatever bytes their names are."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer

from local.kafka.broker import Broker
from model.kafka.headers import headers_of
from tests.support.dead_letters import NotUtf8, records_of
from tests.support.plugins.fixtures import MakeTopic

OTHERS = [(f"h{n}", b"1") for n in range(3_000)]  # more than the interpreter keeps tuples for
CALLS = 30  # the interpreter specialises a call after a few


def sent(broker: Broker, topic: str, headers: list[tuple[str, bytes]]) -> list[Any]:
    """`CALLS` messages that have these headers."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    try:
        for _ in range(CALLS):
            last = producer.send(topic, b"v", b"k", headers=headers)
        last.get(30)
    finally:
        producer.close()
    messages = records_of(broker.bootstrap_servers, topic)
    assert len(messages) == CALLS
    return messages


@pytest.fixture
def always_collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Garbage is collected at each allocation. Up to Python 3.11, that drops an error that is set,
    and reports it as one that nobody can catch."""
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*thresholds)


def test_headers_are_read(broker: Broker, make_topic: MakeTopic) -> None:
    headers = [("a", b"1"), ("a", b""), ("", b"2"), ("é", b"\xff\0")]
    for message in sent(broker, make_topic(), headers):
        assert headers_of(message) == headers_of(message) == headers


def test_a_message_without_headers_has_none(broker: Broker, make_topic: MakeTopic) -> None:
    for message in sent(broker, make_topic(), []):
        assert headers_of(message) == headers_of(message) == []


@pytest.mark.parametrize("others", [[], OTHERS], ids=["alone", "with others"])
def test_a_name_that_is_not_utf8(
    broker: Broker, make_topic: MakeTopic, others: list[tuple[str, bytes]]
) -> None:
    for message in sent(broker, make_topic(), [(NotUtf8("a"), b"1"), *others]):
        assert headers_of(message) is None
        assert headers_of(message) is None, "the second time"


@pytest.mark.usefixtures("always_collecting")
def test_a_name_that_is_not_utf8_while_garbage_is_collected(
    broker: Broker, make_topic: MakeTopic
) -> None:
    for message in sent(broker, make_topic(), [(NotUtf8("a"), b"1"), *OTHERS]):
        assert headers_of(message) is None
