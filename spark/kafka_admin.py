"""Topics and consumer groups, through the Java admin client that Spark's Kafka source includes.

Spark's source and sink have the same settings. Only Java supports all of them: ``--kafka-option``
takes any, such as a keystore in Java's format, and ``[kafka]`` becomes ``sasl.jaas.config``, whose
references to secrets are resolved in the JVM (``model.kafka.config.for_java``). The job also reads
metadata of committed offsets, which confluent-kafka cannot do
(``backend.pipelines.consumer_groups``). Code that has no JVM, such as ``spark.batch.offsets``, uses
``model.kafka.admin``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from model.dead_letters import MAX_MESSAGE_BYTES
from model.kafka.config import NOT_FROM_THE_FUTURE
from spark.errors import JobError, Unavailable
from spark.sources import Kafka

_ANSWER_SECONDS = 5
_TIMEOUTS = {"request.timeout.ms": "5000", "default.api.timeout.ms": "10000"}
_DEAD_LETTER_CONFIG = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}
_DEAD_LETTER_TEXT = " and ".join(f"{name}={value}" for name, value in _DEAD_LETTER_CONFIG.items())


class Topic(NamedTuple):
    """A topic's id (KIP-516), which differs for a recreated topic, and its number of partitions."""

    id: str
    partitions: int


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


Commit = Mapping[TopicPartition, tuple[int, str]]
"""Offset and metadata by partition."""


class EndOffsets(NamedTuple):
    """The answers of the brokers so far. ``offsets``: topic ► partition ► end offset.
    ``is_complete``: whether they have answered for all partitions. ``error``: the error of a
    partition without an offset."""

    offsets: Mapping[str, Mapping[int, int]]
    is_complete: bool
    error: str | None = None


class KafkaAdmin:
    """An admin client in the driver's JVM; a context manager."""

    def __init__(self, session: SparkSession, kafka: Kafka) -> None:
        jvm: Any = session._jvm
        self._jvm = jvm
        self._servers = kafka.bootstrap_servers
        self._clients = jvm.org.apache.kafka.clients
        # Looked up once, because each lookup of a class is slow (spark.jvm_names).
        self._partition_class = jvm.org.apache.kafka.common.TopicPartition
        self._offset_class = self._clients.consumer.OffsetAndMetadata
        self._spec_class = self._clients.admin.ListConsumerGroupOffsetsSpec
        self._map_class = jvm.java.util.HashMap
        self._seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
        try:
            self._admin = self._clients.admin.Admin.create({**_TIMEOUTS, **kafka.client()})
        except TypeError as error:
            raise JobError(
                "Spark's Kafka source is not on the class path. Name the folder of its jars with "
                "--jars, or give spark-submit --jars or --packages."
            ) from error
        except Py4JJavaError as error:
            raise JobError(
                f"the Kafka client rejects its settings: {root_cause(error)}. "
                "Check --bootstrap-servers, --kafka-option and [kafka] of --views-toml."
            ) from error

    def __enter__(self) -> KafkaAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        # If the JVM has ended, there is nothing to close.
        with suppress(Py4JError, OSError):
            self._admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The existing topics among ``names``. Raises ``JobError`` if the brokers do not answer."""
        topics = {}
        for topic, answer in self._admin.describeTopics(list(names)).topicNameValues().items():
            try:
                described = answer.get()
                topics[topic] = Topic(
                    str(described.topicId().toString()), described.partitions().size()
                )
            except Py4JJavaError as error:
                if "UnknownTopicOrPartition" not in root_cause(error):
                    raise JobError(
                        f"topic {topic}: the brokers at {self._servers} do not answer: "
                        f"{root_cause(error)}. Check that they run, --bootstrap-servers and "
                        "--kafka-option."
                    ) from error
        return topics

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """A consumer group's committed offsets. Raises OSError (``_os_error``), Py4JError."""
        offsets = self._committed([group])[group]
        return {partition: committed.offset() for partition, committed in offsets.items()}

    def metadata(self, groups: Collection[str]) -> dict[str, dict[TopicPartition, str]]:
        """The metadata of the groups' committed offsets. Raises as ``committed``."""
        return {
            group: {partition: committed.metadata() for partition, committed in offsets.items()}
            for group, offsets in self._committed(groups).items()
        }

    def _committed(self, groups: Collection[str]) -> dict[str, dict[TopicPartition, Any]]:
        """Java's ``OffsetAndMetadata`` by group and partition, in one request per coordinator."""
        spec = self._spec_class()
        specs = self._map_class()
        for group in groups:
            specs.put(group, spec)
        fetched = self._admin.listConsumerGroupOffsets(specs)
        return {
            group: {
                TopicPartition(partition.topic(), partition.partition()): committed
                for partition, committed in self._wait(
                    fetched.partitionsToOffsetAndMetadata(group)
                ).items()
                if committed is not None
            }
            for group in groups
        }

    def commit(self, commits: Mapping[str, Commit]) -> dict[str, OSError]:
        """Commits offsets of several consumer groups. Returns the groups whose commit the brokers
        refuse; raises TimeoutError, Py4JError."""
        futures = {}
        for group, commit in commits.items():
            offsets = self._map_class()
            for (topic, partition), (offset, metadata) in commit.items():
                offsets.put(
                    self._partition_class(topic, partition),
                    self._offset_class(offset, metadata),
                )
            futures[group] = self._admin.alterConsumerGroupOffsets(group, offsets).all()
        refused: dict[str, OSError] = {}
        for group, future in futures.items():
            try:
                self._wait(future)
            except TimeoutError:
                raise
            except OSError as error:
                refused[group] = error
        return refused

    def _wait(self, future: Any) -> Any:
        try:
            return future.get(_ANSWER_SECONDS, self._seconds)
        except Py4JJavaError as error:
            raise _os_error(root_cause(error)) from error

    def wait_for(
        self, names: Iterable[str], seconds: float, on_wait: Callable[[str], None]
    ) -> dict[str, Topic]:
        """Waits until all topics exist, and returns them. Raises ``JobError`` after ``seconds``."""
        required = sorted(set(names))
        deadline = time.monotonic() + seconds
        reported = ""
        while True:
            error = None
            try:
                topics = self.topics(required)
                missing = ", ".join(topic for topic in required if topic not in topics)
                if not missing:
                    return topics
                waiting = f"topic {missing}"
            except JobError as raised:
                error, waiting = raised, f"the brokers at {self._servers}"
            if waiting != reported:
                on_wait(f"waiting up to {seconds:g} s for {waiting}")
                reported = waiting
            if time.monotonic() >= deadline:
                raise error or JobError(
                    f"no topic {missing} at {self._servers} after {seconds:g} s. Create it (a view "
                    "topic with cleanup.policy=compact; a dead-letter topic with one partition, "
                    f"{_DEAD_LETTER_TEXT}), then start again."
                )
            time.sleep(0.5)

    def create_dead_letter_topic(self, topic: str) -> None:
        """Creates the topic if it does not exist: one partition, compacted, default replication."""
        why = self.create_topic(topic, 1, _DEAD_LETTER_CONFIG)
        if why and not why.startswith("TopicExists"):
            raise JobError(
                f"cannot create topic {topic}: {why}. Create it with one partition, "
                f"{_DEAD_LETTER_TEXT}."
            )

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> str:
        """Creates a topic with the broker's default replication; returns the error as ``Class:
        message``, or an empty string."""
        why = self._create(topic, partitions, {**NOT_FROM_THE_FUTURE, **config})
        # The broker may be too old for this setting.
        if why.startswith("InvalidConfiguration"):
            why = self._create(topic, partitions, dict(config))
        return why

    def config(self, topic: str, name: str) -> str | None:
        """A setting of the topic; None if the job may not read it, or the brokers do not have it.
        Raises ``Unavailable`` after another error: asking again may help."""
        resource_class = self._jvm.org.apache.kafka.common.config.ConfigResource
        kind = resource_class.Type.valueOf("TOPIC")
        try:
            [config] = (
                self._admin.describeConfigs([resource_class(kind, topic)]).all().get().values()
            )
        except Py4JJavaError as error:
            why = root_cause(error)
            kind = why.partition(":")[0]
            if kind.endswith("AuthorizationException") or kind == "UnsupportedVersionException":
                return None
            raise Unavailable(f"topic {topic}: cannot read its settings: {why}") from error
        entry = config.get(name)
        value = None if entry is None else entry.value()
        return None if value is None else str(value)

    def end_offsets(self, topics: Mapping[str, int]) -> dict[str, dict[int, int]]:
        """Topic ► partition ► end offset: the high watermark, also while a transaction is open.
        ``topics``: topic ► number of partitions. Raises OSError, Py4JError."""
        return self._offsets(topics, self._clients.admin.OffsetSpec.latest())

    def ask_for_end_offsets(self, topics: Mapping[str, int]) -> Callable[[], EndOffsets]:
        """As ``end_offsets``, but without waiting. The returned function returns the answers that
        have arrived so far. A partition without a leader has no answer until the timeout. Both
        functions raise Py4JError."""
        specs = self._specs(topics, self._clients.admin.OffsetSpec.latest())
        result = self._admin.listOffsets(specs)
        return _PendingOffsets(
            {
                TopicPartition(topic, partition): result.partitionResult(
                    self._partition_class(topic, partition)
                )
                for topic, count in topics.items()
                for partition in range(count)
            }
        ).poll

    def start_offsets(self, topics: Mapping[str, int]) -> dict[str, dict[int, int]]:
        """As ``end_offsets``: the first offsets that the brokers keep."""
        return self._offsets(topics, self._clients.admin.OffsetSpec.earliest())

    def _specs(self, topics: Mapping[str, int], spec: Any) -> Any:
        specs = self._map_class()
        for topic, count in topics.items():
            for partition in range(count):
                specs.put(self._partition_class(topic, partition), spec)
        return specs

    def _offsets(self, topics: Mapping[str, int], spec: Any) -> dict[str, dict[int, int]]:
        specs = self._specs(topics, spec)
        offsets: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        for partition, info in self._wait(self._admin.listOffsets(specs).all()).items():
            offsets[partition.topic()][partition.partition()] = info.offset()
        return offsets

    def _create(self, topic: str, partitions: int, config: dict[str, str]) -> str:
        optional = self._jvm.java.util.Optional
        new_topic = self._clients.admin.NewTopic(topic, optional.of(partitions), optional.empty())
        try:
            self._admin.createTopics([new_topic.configs(config)]).all().get()
        except Py4JJavaError as error:
            return root_cause(error)
        return ""


class _PendingOffsets:
    """Java's futures of offsets, by partition."""

    def __init__(self, futures: Mapping[TopicPartition, Any]) -> None:
        self._pending = dict(futures)
        self._offsets: dict[str, dict[int, int]] = {}
        self._error: str | None = None

    def poll(self) -> EndOffsets:
        done = [partition for partition, future in self._pending.items() if future.isDone()]
        for topic, number in done:
            try:
                offset = self._pending.pop(TopicPartition(topic, number)).get().offset()
            except Py4JJavaError as error:
                self._error = f"{topic}, partition {number}: {root_cause(error)}"
            else:
                self._offsets.setdefault(topic, {})[number] = offset
        return EndOffsets(self._offsets, not self._pending, self._error)


def _os_error(cause: str) -> OSError:
    """TimeoutError if there was no answer, PermissionError if the brokers deny it, else OSError."""
    kind = cause.partition(":")[0]
    if kind == "TimeoutException":
        return TimeoutError(cause)
    return PermissionError(cause) if kind.endswith("AuthorizationException") else OSError(cause)


def root_cause(error: Py4JJavaError) -> str:
    """``Class: message`` of the innermost Java exception."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
