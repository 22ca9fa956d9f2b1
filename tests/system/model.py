"""What a topic says, read by other means: the reference for what is stored and answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from rocksdict import AccessType, Options, Rdict

from local.waiting import wait_until
from model.records import ENTRY, IDENTITY_KEY, POSITION_KEY, StoreMetadata, decode_number


def commit_offsets(admin: AdminClient, group: str, units: list[TopicPartition]) -> None:
    """Committed when this returns: the coordinator of a group may not be there at once."""

    def committed() -> bool:
        [future] = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, units)]
        ).values()
        try:
            return all(unit.error is None for unit in future.result(10).topic_partitions)
        except KafkaException:
            return False

    wait_until(committed, 30, f"the offsets of {group} to be committed", 0.1)


class Writer:
    """Produces to topics as Java clients do, and waits until the broker has it all."""

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
    ) -> None:
        """Returns when all are stored; `partition` overrules the partitioner."""
        failed: list[KafkaError] = []
        where = {} if partition is None else {"partition": partition}
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
        """(key, value, timestamp in ms, partition), in this order."""
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
        """String keys and JSON values; None deletes."""
        self.send(
            topic,
            (
                (key.encode(), None if value is None else json.dumps(value).encode())
                for key, value in entries.items()
            ),
        )

    def transaction(self, commit: bool, topic: str, entries: Mapping[str, Any]) -> None:
        """For a writer with a `transactional.id`."""
        self._producer.begin_transaction()
        self.table(topic, entries)
        if commit:
            self._producer.commit_transaction(30)
        else:
            self._producer.abort_transaction(30)

    def init_transactions(self) -> None:
        self._producer.init_transactions(30)


# record key -> (timestamp in ms, offset, value)
Entries = dict[bytes, tuple[int, int, bytes]]


@dataclass
class Log:
    """The records of one partition in offset order, and where it ends for a reader."""

    records: list[tuple[int, int, bytes, bytes | None]] = field(default_factory=list)
    end: int = 0

    @property
    def last_record(self) -> int:
        """Its offset; behind it may be transaction markers, or what was compacted away."""
        return self.records[-1][0] if self.records else -1


def fold(log: Log, position: int | None = None) -> Entries:
    """What a table holds after the records below `position` (the end, by default)."""
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
    """Reads a topic from its start to its present end."""
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
    """All entries of a topic with string keys and JSON values."""
    return {
        key.decode(): json.loads(value) for log in logs for key, (_, _, value) in fold(log).items()
    }


@dataclass(frozen=True)
class Stored:
    """What a closed store partition holds on disk."""

    entries: Entries
    position: int
    identity: StoreMetadata


def stored(data_dir: Path, view: str, partition: int) -> Stored:
    """Read-only, past the product's own code; for keys that are stored as they are."""
    path = str(data_dir / view / str(partition))
    db = Rdict(path, Options(raw_mode=True), access_type=AccessType.read_only())
    try:
        entries: Entries = {}
        position, identity = None, None
        for key, value in db.items():
            if key[:1] == ENTRY:
                stamp = int.from_bytes(value[:8], "big", signed=True)
                offset = int.from_bytes(value[8:16], "big", signed=True)
                entries[key[1:]] = (stamp, offset, value[16:])
            elif key == POSITION_KEY:
                position = decode_number(value)
            elif key == IDENTITY_KEY:
                identity = StoreMetadata.decode(value)
        assert position is not None
        assert identity is not None
        return Stored(entries, position, identity)
    finally:
        db.close()
