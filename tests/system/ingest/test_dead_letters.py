"""Records in other formats than the view's go to the dead-letter topic with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kafka import KafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from backend.ingest.batch import DeadLetter
from backend.ingest.dead_letter_reader import DeadLetterReader
from backend.ingest.dead_letters import DeadLetters
from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.client import key_path
from tests.support.dead_letters import ODD, NotUtf8, Sent, records_of, send, undone
from tests.support.deployment import views_toml
from tests.support.in_process.examples import view
from tests.support.in_process.fakes import Rec
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer, ends_of, history


def letters(broker: Broker, topic: str, count: int) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused", "log_level": 0}
    )
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])

        def enough() -> bool:
            found.extend(m for m in consumer.consume(100, 0.2) if m.error() is None)
            return len(found) >= count

        wait_until(enough, 30, f"{count} records in {topic}", 0)
    finally:
        consumer.close()
    return found


def counted(backend: Backend) -> float:
    return sum(
        sample.value
        for family in text_string_to_metric_families(backend.get("/metrics").body.decode())
        for sample in family.samples
        if sample.name == "queryable_dead_letters_total"
    )


def test_undecodable_records_go_to_the_dead_letter_topic(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(2)
    writer.table(topic, {"good": "kept", "other": 1})
    [backend] = deploy(views_toml(v={"topic": topic})).start()
    bad: list[tuple[bytes | None, bytes | None, str]] = [
        (b"\xff\xfe", b'"a key that is no text"', "key"),
        (b"good", b"{no json", "value"),
        (None, b'"no key at all"', "no key"),
        (b"good", b"\xff", "value"),
        (b"", b"", "value"),
    ]
    for key, value, _ in bad:
        writer.send(topic, [(key, value)])
    writer.table(topic, {"last": "after them"})
    backend.wait(
        lambda: backend.get(key_path("v", "last")).status == 200 and counted(backend) == len(bad),
        "the last record, and all dead letters counted",
    )
    assert backend.get(key_path("v", "good")).code == "value-unreadable"
    counts = {
        name: sum(p[name] for p in backend.partitions("v"))
        for name in ("dead_letters", "unreadable_values", "unreadable_keys")
    }
    assert counts == {"dead_letters": len(bad), "unreadable_values": 3, "unreadable_keys": 2}
    assert backend.get("/views/v").json()["unreadable"] == {
        "values": 3, "keys": 2, "partitions": 2,
    }  # fmt: skip

    found = letters(broker, f"{topic}.dead-letter", len(bad))
    assert len(found) == len(bad)
    logs = history(broker.bootstrap_servers, topic, 2)
    there = {
        f"{topic}:{partition}:{offset}": (key, value)
        for partition, log in enumerate(logs)
        for offset, _, key, value in log.records
    }
    seen = []
    for letter in found:
        headers = dict(letter.headers() or [])
        name = letter.key().decode()
        key, value = there[name]
        assert letter.value() == value
        assert headers.get("source-key") == key
        source = (headers[f"source-{part}"].decode() for part in ("topic", "partition", "offset"))
        assert ":".join(source) == name
        assert headers["by"] == b"backend/v"
        seen.append((key, value, headers["reason"].decode()))
    for key, value, reason in bad:
        assert any((k, v) == (key, value) and reason in text for k, v, text in seen), (key, seen)

    # they are counted once: a restart resumes after them
    backend.kill()
    backend.start()
    backend.wait_positions("v", ends_of(logs))
    assert counted(backend) == len(bad)
    assert len(letters(broker, f"{topic}.dead-letter", len(bad))) == len(bad)
    problem = backend.get(key_path("v", "good"))
    assert problem.status == 406
    document = json.loads(problem.body)
    newest = there[f"{topic}:{document['partition']}:{document['offset']}"]
    assert newest == (b"good", b"\xff")
    letter = document["dead_letter"]
    assert letter["topic"] == f"{topic}.dead-letter"
    [reason] = [
        dict(each.headers() or [])["reason"].decode()
        for each in found
        if each.key().decode() == letter["key"]
    ]
    assert reason == f"value: {document['reason']}"


def test_headers_and_timestamps_are_kept(broker: Broker, make_topic: MakeTopic) -> None:
    servers, topic = broker.bootstrap_servers, make_topic(retention_ms=-1)
    send(servers, topic, [*ODD, Sent(None, None, [("a", None)], 5)])
    records = records_of(servers, topic)
    letters = DeadLetters({"bootstrap.servers": servers, "log_level": 0}, 10)
    letters.send(view("v", topic=topic), 0, [DeadLetter(record, "odd") for record in records])
    letters.close()
    assert letters.failed == 0
    found = records_of(servers, f"{topic}.dead-letter")
    assert [undone(each) for each in found] == [
        Sent(each.key(), each.value(), each.headers() or [], each.timestamp()[1])
        for each in records
    ]
    assert [letter.value() for letter in found][-1] == b"", "not a tombstone"


@pytest.mark.parametrize("properties", [{}, {"auto.create.topics.enable": "true"}])
def test_a_topic_that_is_deleted_is_created_again(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    """Regression: all dead letters were lost until a restart, or the topic had the broker's
    defaults."""
    with Broker(tmp_path / "broker", properties=properties) as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        admin, topic = AdminClient(settings), "t.dead-letter"
        letters = DeadLetters(settings, 5)
        for number in range(3):
            record = cast(Any, Rec(number, b"k", b"{"))
            letters.send(view("v", topic="t"), 0, [DeadLetter(record, "odd")])
            assert letters.failed == 0
            found = records_of(broker.bootstrap_servers, topic)
            assert [each.key() for each in found] == [b"t:0:%d" % number]
            resource = ConfigResource(ResourceType.TOPIC, topic)
            [config] = admin.describe_configs([resource]).values()
            assert config.result(10)["cleanup.policy"].value == "compact"
            [deleted] = admin.delete_topics([topic]).values()
            deleted.result(10)
            # the broker may take records for it until then
            wait_until(lambda: topic not in admin.list_topics(timeout=5).topics, 20, "its end")
        letters.close()


def send_not_utf8(servers: str, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=servers)
    try:
        for _ in range(count):
            sent = producer.send(topic, b"{", b"k", headers=[(NotUtf8("a"), b"1")])
        sent.get(30)
    finally:
        producer.close()


def test_a_headers_name_that_is_not_utf8_does_not_stop_ingest(
    broker: Broker, make_topic: MakeTopic
) -> None:
    servers, topic = broker.bootstrap_servers, make_topic()
    count = 20  # the interpreter specialises a call after a few
    send_not_utf8(servers, topic, count)
    letters = DeadLetters({"bootstrap.servers": servers, "log_level": 0}, 10)
    records = records_of(servers, topic)
    letters.send(view("v", topic=topic), 0, [DeadLetter(record, "odd") for record in records])
    letters.close()
    assert letters.failed == 0
    found = records_of(servers, f"{topic}.dead-letter")
    assert len(found) == count
    for letter in found:
        assert letter.value() == b"{"
        assert dict(letter.headers())["source-headers-bytes"] == b"unknown"


def test_a_headers_name_that_is_not_utf8_does_not_stop_the_list_of_dead_letters(
    broker: Broker, make_topic: MakeTopic
) -> None:
    """Others may write to the topic of dead letters, too."""
    servers, topic = broker.bootstrap_servers, make_topic()
    count = 20
    send_not_utf8(servers, make_topic(name=f"{topic}.dead-letter"), count)
    found = DeadLetterReader({"bootstrap.servers": servers}, 10).newest(topic, count)
    shown = [(each["value"], each["by"]) for each in found["items"]]
    assert shown == [({"text": "{"}, None)] * count
