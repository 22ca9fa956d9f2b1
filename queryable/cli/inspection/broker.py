"""Reads topics from Kafka: their partitions, configuration and some records.

This module requires confluent-kafka, so `adopt` and `check` import it only when they run. It is
read-only: it assigns partitions itself, joins no group, commits nothing and creates nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from model.kafka.admin import configs, failure_of, reason_of
from model.kafka.clients import closing, own
from model.kafka.config import for_librdkafka, hide
from model.kafka.config_providers import resolve
from model.kafka.headers import headers_of
from model.kafka.obstacles import Obstacle, find_advertised_obstacle
from model.problems import ConfigurationError
from queryable.cli.exit_codes import NoBroker
from queryable.cli.inspection.samples import SampledRecord, TopicSample
from queryable.client.protocol.errors import BadUse

# librdkafka requires a group id, even if no group is joined
_GROUP_ID = "queryable-cli-joins-no-group"
_JSON = json.JSONDecoder()
_OFFSETS_PER_RECORD = 4
"""Offsets to read per sampled record: transactions and compaction leave gaps."""


class Broker:
    """`kafka`: connection settings, with librdkafka's names, from `source`. `hide` removes secrets
    from messages. Raises BadUse for a setting that librdkafka refuses. All methods raise
    NoBroker if the broker does not answer within `timeout` seconds."""

    def __init__(
        self,
        servers: str,
        kafka: Mapping[str, str],
        timeout: float = 10.0,
        hide: Callable[[str], str] = str,
        source: str = "[kafka]",
    ) -> None:
        self.servers = servers
        self._kafka = kafka
        self._source = source
        self._hide = hide
        self._errors: list[KafkaError] = []
        self._timeout = timeout
        self._settings: dict[str, Any] = {
            **kafka,
            "bootstrap.servers": servers,
            "log_level": 0,
            # connection errors are reported in the background
            "error_cb": self._errors.append,
        }
        try:
            self._admin = own(AdminClient(dict(self._settings)))
        except KafkaException as error:
            raise BadUse(f"{source}: {hide(reason_of(error))}.") from None

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except (KafkaException, TimeoutError) as error:
            failure = failure_of(
                error, self._errors, self.servers, self._kafka, self._source, self._hide
            )
            raise self._no_broker(failure.obstacle, failure.why) from None

    def _no_broker(self, obstacle: Obstacle | None, why: str) -> NoBroker:
        if obstacle is not None:
            return NoBroker(
                f"Cannot read from the broker at {self.servers}: {obstacle.what}.",
                obstacle.remedy,
            )
        return NoBroker(
            f"Cannot read from the broker at {self.servers}: {why}.",
            "set the address of a running broker with QUERYABLE_BOOTSTRAP_SERVERS "
            "(--bootstrap-servers); if the broker needs TLS or SASL, set it in "
            f"{self._source} (docs/security/kafka.md)",
        )

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic. Also raises NoBroker if a broker answers, and
        none can be reached at the address that it advertises."""
        with self._translating_errors():
            try:
                # all topics, because a request for one that does not exist may create it
                metadata = self._admin.list_topics(timeout=self._timeout)
            except KafkaException:
                self._admin.poll(0)  # calls error_cb
                raise
        advertised = [(str(broker.host), broker.port) for broker in metadata.brokers.values()]
        obstacle = find_advertised_obstacle(self.servers, advertised, self._kafka, self._source)
        if obstacle is not None:
            raise self._no_broker(obstacle, "")
        return {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def replicas(self) -> dict[str, int]:
        """The replicas of each topic: of the partition with the fewest."""
        with self._translating_errors():
            topics = self._admin.list_topics(timeout=self._timeout).topics
        return {
            name: min((len(p.replicas) for p in topic.partitions.values()), default=0)
            for name, topic in topics.items()
        }

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The configuration of each topic, with Kafka's names."""
        with self._translating_errors():
            return configs(self._admin, topics, self._timeout)

    def committed_metadata(self, group: str, topics: Mapping[str, int]) -> list[str]:
        """The metadata that a group has committed with its offsets in these topics. The group is
        not joined. `topics`: the number of partitions of each."""
        settings = {**self._settings, "group.id": group, "enable.auto.commit": False}
        partitions = [TopicPartition(t, n) for t, count in topics.items() for n in range(count)]
        with self._translating_errors(), closing(Consumer(settings)) as consumer:
            committed = consumer.committed(partitions, self._timeout)
        return [metadata_of(partition) for partition in committed]

    def sample(self, topic: str, partitions: int, size: int, seconds: float) -> TopicSample:
        """Up to `size` of the newest records, spread over the partitions; fewer if they do not
        arrive within `seconds`."""
        settings = {
            **self._settings,
            "group.id": _GROUP_ID,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
        }
        deadline = time.monotonic() + seconds
        with self._translating_errors(), closing(Consumer(settings)) as consumer:
            per_partition = -(-size // max(partitions, 1))
            ends = {}
            assignment = []
            offsets = []
            for number in range(partitions):
                start, end = consumer.get_watermark_offsets(
                    TopicPartition(topic, number), self._timeout
                )
                offsets.append((start, end))
                if end > start:
                    ends[number] = end
                    first = max(start, end - _OFFSETS_PER_RECORD * per_partition)
                    assignment.append(TopicPartition(topic, number, first))
            if not assignment:
                return TopicSample([], offsets)
            consumer.assign(assignment)
            return TopicSample(_read(consumer, ends, per_partition, deadline), offsets)


def broker_of(servers: str, table: Mapping[str, str], seconds: float, file: Path | None) -> Broker:
    """A broker with the connection settings of the table [kafka] of a file. Raises BadUse."""
    try:
        kafka = resolve(table, open, os.environ)
        client = for_librdkafka(kafka)
    except ConfigurationError as error:
        raise BadUse(f"{file}: {error}.") from None
    return Broker(
        servers, client, seconds, lambda text: hide(text, table, kafka), kafka_table_of(file)
    )


def kafka_table_of(file: Path | None) -> str:
    """Where the settings of the connection are, in words. None: there are none yet."""
    if file is None:
        return "the table [kafka] of a file that --kafka names"
    return f"[kafka] of {file}"


def _read(
    consumer: Consumer, ends: Mapping[int, int], per_partition: int, deadline: float
) -> list[SampledRecord]:
    """The last records of each partition before its end offset."""
    newest: dict[int, deque[SampledRecord]] = {
        number: deque(maxlen=per_partition) for number in ends
    }
    unread = set(newest)
    while unread and (left := deadline - time.monotonic()) > 0:
        message = consumer.poll(min(left, 0.5))
        if message is None:
            continue
        number, offset = message.partition(), message.offset()
        assert number is not None
        assert offset is not None
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            unread.discard(number)
            continue
        newest[number].append(
            SampledRecord(
                number,
                message.timestamp()[1],
                message.key(),
                message.value(),
                dict(headers_of(message) or ()),
            )
        )
        if offset + 1 >= ends[number]:
            unread.discard(number)
    return [record for records in newest.values() for record in records]


def metadata_of(partition: TopicPartition) -> str:
    """The JSON that was committed with an offset; empty if it cannot be read.

    librdkafka's text has a length, but confluent-kafka reads on to the next zero byte. So the JSON
    may be followed by other bytes, and those may be no text.
    """
    try:
        text = partition.metadata or ""
        _, end = _JSON.raw_decode(text)
    except ValueError:
        return ""
    return text[:end]
