"""What `adopt` and `check` look at of a broker: topics, their settings, some of their records.

Needs confluent-kafka, so only these commands import it, when they run (see `needs_server`). It only
reads: partitions are assigned by hand, no group is joined, nothing is committed or created.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from queryable.console.guesses import Looked, Sampled
from queryable.core.errors import NoAnswer

# librdkafka wants a name, also where no group is ever joined
_UNUSED = "queryable-console-reads-alone"
_SCAN = 4
"""So many offsets are looked at for each record wanted: transactions and compaction leave gaps."""


class Broker:
    """`kafka`: settings of the connection in librdkafka's names. NoAnswer where it cannot be
    asked within `timeout` s."""

    def __init__(self, servers: str, kafka: Mapping[str, str], timeout: float = 10.0) -> None:
        self.servers = servers
        self._said: list[str] = []
        self._timeout = timeout
        self._settings: dict[str, Any] = {
            **kafka,
            "bootstrap.servers": servers,
            "log_level": 0,
            # why it cannot connect is said in the background
            "error_cb": lambda error: self._said.append(error.str()),
        }
        with self._asking():
            self._admin = AdminClient(dict(self._settings))

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except (KafkaException, TimeoutError) as error:
            why = next((said for said in self._said if "uthentication" in said), None)
            if why is None:
                why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            raise NoAnswer(f"The broker at {self.servers} cannot be asked: {why}.") from None

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        with self._asking():
            try:
                # all of them: to ask for one that is not there may create it
                found = self._admin.list_topics(timeout=self._timeout).topics
            except KafkaException:
                self._admin.poll(0)  # calls error_cb
                raise
        return {name: len(topic.partitions) for name, topic in found.items()}

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The settings of each topic, in Kafka's names."""
        wanted = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        if not wanted:
            return {}
        with self._asking():
            asked = self._admin.describe_configs(wanted, request_timeout=self._timeout)
            return {
                resource.name: {
                    name: entry.value for name, entry in future.result(self._timeout).items()
                }
                for resource, future in asked.items()
            }

    def sample(self, topic: str, partitions: int, most: int, seconds: float) -> Looked:
        """Up to `most` of the newest records, spread over the partitions; fewer if they do not
        come within `seconds`."""
        settings = {
            **self._settings,
            "group.id": _UNUSED,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
        }
        deadline = time.monotonic() + seconds
        with self._asking(), closing(Consumer(settings)) as consumer:
            each = -(-most // max(partitions, 1))
            ends = {}
            places = []
            spans = []
            for number in range(partitions):
                place = TopicPartition(topic, number)
                first, end = consumer.get_watermark_offsets(place, self._timeout)
                spans.append((first, end))
                if end > first:
                    ends[number] = end
                    places.append(TopicPartition(topic, number, max(first, end - _SCAN * each)))
            if not places:
                return Looked([], spans)
            consumer.assign(places)
            return Looked(_read(consumer, ends, each, deadline), spans)


def _read(consumer: Consumer, ends: Mapping[int, int], each: int, deadline: float) -> list[Sampled]:
    """The last `each` of what comes of each partition up to its end, as it was at first."""
    found: dict[int, deque[Sampled]] = {number: deque(maxlen=each) for number in ends}
    unread = set(found)
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
        found[number].append(
            Sampled(
                number,
                message.timestamp()[1],
                message.key(),
                message.value(),
                _headers(message),
            )
        )
        if offset + 1 >= ends[number]:
            unread.discard(number)
    return [record for records in found.values() for record in records]


def _headers(message: Message) -> dict[str, bytes]:
    found: Any = message.headers() or ()
    return dict(found)
