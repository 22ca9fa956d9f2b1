"""The consumer reads a new topic at once."""

from __future__ import annotations

import threading
import time
from statistics import median

from backend.ingest.consumer import Fetched, RecordConsumer
from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer


def seconds_to_first_record(consumer: RecordConsumer, topic: str) -> float:
    began = time.monotonic()
    consumer.assign((topic, 0), 0, -1)
    fetched: list[Fetched] = []

    def has_record() -> bool:
        fetched.append(consumer.fetch(10, 0.02))
        return bool(fetched[-1].records)

    wait_until(has_record, 20, "a record", 0.0)
    return time.monotonic() - began


def test_a_new_topic_is_read_at_once(broker: Broker, make_topic: MakeTopic, writer: Writer) -> None:
    """Regression: librdkafka looked for topics that it does not know once a second."""
    topics = [make_topic(1) for _ in range(5)]
    for topic in topics:
        writer.table(topic, {"a": 1})
    consumer = RecordConsumer({"bootstrap.servers": broker.bootstrap_servers}, topics)
    try:
        seconds_to_first_record(consumer, topics[0])  # it is connected now
        assert median(seconds_to_first_record(consumer, topic) for topic in topics[1:]) < 0.3
    finally:
        consumer.close()


def test_a_wait_for_records_ends_if_something_else_has_news(
    broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(1)
    consumer = RecordConsumer({"bootstrap.servers": broker.bootstrap_servers}, [topic])
    answers: list[bool] = []

    def has_news() -> bool:
        return answers.pop(0)

    try:
        consumer.assign((topic, 0), 0, -1)
        answers = [False] * 80
        assert consumer.fetch(10, 20.0, has_news).ends == {(topic, 0): 0}
        answers = [False, False, True]
        assert consumer.fetch(10, 3600.0, has_news) == Fetched()
        assert answers == []
        answers = [False] * 2
        assert consumer.fetch(10, 0.6, has_news) == Fetched(), "the timeout ends it, too"
        assert len(answers) < 2
        writer.table(topic, {"a": 1})
        answers = [False] * 80
        assert len(consumer.fetch(10, 20.0, has_news).records[topic, 0]) == 1
    finally:
        consumer.close()


def test_a_wait_for_records_ends_after_the_process_was_stopped(
    broker: Broker, make_topic: MakeTopic
) -> None:
    """Regression: librdkafka waits for ever if a timeout is negative. An instance with no new
    records did so after it had been stopped for a moment, and its ingest hung."""
    topic = make_topic(1)
    consumer = RecordConsumer({"bootstrap.servers": broker.bootstrap_servers}, [topic])
    consumer.assign((topic, 0), 0, -1)
    assert consumer.fetch(10, 20.0).ends == {(topic, 0): 0}

    def stopped_for_a_moment() -> bool:
        time.sleep(1.0)
        return False

    fetched: list[Fetched] = []
    ingest = threading.Thread(
        target=lambda: fetched.append(consumer.fetch(10, 0.5, stopped_for_a_moment)), daemon=True
    )
    ingest.start()
    wait_until(lambda: fetched, 10, "the fetch to end")
    consumer.close()


def test_a_broker_that_does_not_answer_is_asked_once() -> None:
    topics = [f"t{number}" for number in range(40)]
    began = time.monotonic()
    consumer = RecordConsumer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, topics)
    try:
        for topic in topics:
            consumer.assign((topic, 0), 0, -1)
        assert time.monotonic() - began < 10  # of 20 s, if each is asked for
    finally:
        consumer.close()
