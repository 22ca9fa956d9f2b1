"""Writes to topics, and reads their contents: the reference for stored data and answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from local.kafka.broker import quiet_admin
from local.waiting import wait_until


def commit_offsets(admin: AdminClient, group: str, units: list[TopicPartition]) -> None:
    """Commit offsets of a group. It retries: the group may have no coordinator yet."""

    def committed() -> bool:
        [future] = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, units)]
        ).values()
        try:
            return all(unit.error is None for unit in future.result(10).topic_partitions)
        except KafkaException:
            return False

    wait_until(committed, 30, f"the offsets of {group} to be committed", 0.1)


def set_config(servers: str, topic: str, name: str, value: str) -> None:
    """Change a setting of a topic, and wait until the broker has it."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = quiet_admin(servers)
    [future] = admin.incremental_alter_configs([resource]).values()
    future.result(10)

    def is_set() -> bool:
        [described] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return bool(described.result(10)[name].value == value)

    wait_until(is_set, 10, f"{name} of {topic}")


class Writer:
    """Produces with the Java clients' partitioner, and waits until the broker has all records."""

    def __init__(self, bootstrap_servers: str, **settings: Any) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "partitioner": "murmur2_random",
                "log_level": 0,
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
                **settings,
            }
        )

    def send(
        self,
        topic: str,
        records: Iterable[tuple[bytes | None, bytes | None]],
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Send (key, value) pairs; `partition` overrides the partitioner. `timestamp`: in ms."""
        failed: list[KafkaError] = []
        given = {"partition": partition, "timestamp": timestamp}
        where = {name: value for name, value in given.items() if value is not None}
        for key, value in records:
            self._producer.produce(
                topic, value, key, on_delivery=lambda e, _: e and failed.append(e), **where
            )
            self._producer.poll(0)
        assert self._producer.flush(60) == 0
        assert not failed, failed[0]

    def send_timed(
        self, topic: str, records: Iterable[tuple[bytes, bytes | None, int, int]]
    ) -> None:
        """Send records of (key, value, timestamp in ms, partition)."""
        failed: list[KafkaError] = []
        for key, value, timestamp, partition in records:
            self._producer.produce(
                topic,
                value,
                key,
                partition=partition,
                timestamp=timestamp,
                on_delivery=lambda e, _: e and failed.append(e),
            )
            self._producer.poll(0)
        assert self._producer.flush(60) == 0
        assert not failed, failed[0]

    def table(self, topic: str, entries: Mapping[str, Any]) -> None:
        """Send string keys and JSON values; None is a tombstone."""
        self.send(
            topic,
            (
                (key.encode(), None if value is None else json.dumps(value).encode())
                for key, value in entries.items()
            ),
        )

    def transaction(self, commit: bool, topic: str, entries: Mapping[str, Any]) -> None:
        """Like `table`, in a transaction, for a writer with a `transactional.id`."""
        self.begin()
        self.table(topic, entries)
        if commit:
            self.commit()
        else:
            self._producer.abort_transaction(30)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def init_transactions(self) -> None:
        self._producer.init_transactions(30)


# record key -> (timestamp in ms, offset, value)
Entries = dict[bytes, tuple[int, int, bytes]]


@dataclass
class Log:
    """The records of one partition (offset, timestamp in ms, key, value), and its end offset."""

    records: list[tuple[int, int, bytes, bytes | None]] = field(default_factory=list)
    end: int = 0

    @property
    def last_record(self) -> int:
        """The offset of the last record. Transaction markers or compacted records may follow it."""
        return self.records[-1][0] if self.records else -1


def fold(log: Log, position: int | None = None) -> Entries:
    """The table after the records below `position` (default: the end)."""
    entries: Entries = {}
    for offset, timestamp, key, value in log.records:
        if position is not None and offset >= position:
            break
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = (timestamp, offset, value)
    return entries


def history(bootstrap_servers: str, topic: str, partitions: int) -> list[Log]:
    """The partitions of a topic, read from the start to the current end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    found = [Log() for _ in range(partitions)]
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ended: set[int] = set()

        def step() -> bool:
            for message in consumer.consume(10_000, 0.2):
                log = found[message.partition()]
                error = message.error()
                if error is None:
                    stamp = message.timestamp()[1]
                    log.records.append((message.offset(), stamp, message.key(), message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    log.end = message.offset()
                    ended.add(message.partition())
                else:
                    raise AssertionError(error)
            return len(ended) == partitions

        wait_until(step, 60, f"the end of {topic}", 0)
    finally:
        consumer.close()
    return found


def ends_of(logs: Sequence[Log]) -> dict[int, int]:
    return {number: log.end for number, log in enumerate(logs)}


def table_of(logs: Sequence[Log]) -> dict[str, Any]:
    """The table of a topic with string keys and JSON values."""
    return {
        key.decode(): json.loads(value) for log in logs for key, (_, _, value) in fold(log).items()
    }
