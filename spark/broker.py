"""Topics as the broker knows them, asked through the Java client that Spark brings along.

Spark itself checks little: it takes a topic that was deleted and made anew for the old one as soon
as that holds as many records, and writes to a view topic made anew only what comes from now on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from model.kafka_config import NOT_FROM_THE_FUTURE
from spark.errors import JobError, made_anew
from spark.heartbeats import Commit, Unit
from spark.sources import Kafka

_ANSWER_SECONDS = 5
_TIMEOUTS = {"request.timeout.ms": "5000", "default.api.timeout.ms": "10000"}


class Topic(NamedTuple):
    """What tells a topic from another one of its name (KIP-516), and its partitions' number."""

    id: str
    partitions: int


class Broker:
    """An admin client in the driver's JVM; use as a context manager."""

    def __init__(self, session: SparkSession, kafka: Kafka) -> None:
        self._jvm: Any = session._jvm
        self._servers = kafka.bootstrap_servers
        try:
            self._admin = self._clients.admin.Admin.create({**_TIMEOUTS, **kafka.client()})
        except TypeError as error:
            raise JobError(
                "Spark's Kafka source is not on the class path. Name the folder of its jars with "
                "--jars, or give spark-submit --jars or --packages."
            ) from error
        except Py4JJavaError as error:
            raise JobError(
                f"the Kafka settings are refused: {root_cause(error)}. "
                "Check --bootstrap-servers and --kafka-option."
            ) from error

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        # Where the JVM has ended there is nothing to close.
        with suppress(Py4JError, OSError):
            self._admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    @property
    def _clients(self) -> Any:
        return self._jvm.org.apache.kafka.clients

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of these topics that there are."""
        found = {}
        for topic, answer in self._admin.describeTopics(list(names)).topicNameValues().items():
            try:
                shown = answer.get()
                found[topic] = Topic(str(shown.topicId().toString()), shown.partitions().size())
            except Py4JJavaError as error:
                if "UnknownTopicOrPartition" not in root_cause(error):
                    raise JobError(
                        f"topic {topic}: the brokers at {self._servers} do not answer: "
                        f"{root_cause(error)}. Check that they run, --bootstrap-servers and "
                        "--kafka-option."
                    ) from error
        return found

    def committed(self, group: str) -> dict[Unit, int]:
        """The offsets that a consumer group has; OSError, Py4JError."""
        asked = self._admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()
        return {
            Unit(unit.topic(), unit.partition()): found.offset()
            for unit, found in self._wait(asked).items()
            if found is not None
        }

    def commit(self, commits: Mapping[str, Commit]) -> None:
        """Offsets and their metadata by consumer group, all at once; OSError, Py4JError."""
        asked = {}
        for group, commit in commits.items():
            offsets = self._jvm.java.util.HashMap()
            for (topic, partition), (offset, metadata) in commit.items():
                unit = self._jvm.org.apache.kafka.common.TopicPartition(topic, partition)
                found = self._clients.consumer.OffsetAndMetadata(offset, metadata)
                offsets.put(unit, found)
            asked[group] = self._admin.alterConsumerGroupOffsets(group, offsets).all()
        for future in asked.values():
            self._wait(future)

    def _wait(self, future: Any) -> Any:
        try:
            return future.get(_ANSWER_SECONDS, self._jvm.java.util.concurrent.TimeUnit.SECONDS)
        except Py4JJavaError as error:
            raise OSError(root_cause(error)) from error

    def wait_for(
        self, names: Iterable[str], seconds: float, on_wait: Callable[[str], None]
    ) -> dict[str, Topic]:
        """All these topics, as soon as there are all; ``JobError`` after ``seconds``."""
        wanted = sorted(set(names))
        deadline = time.monotonic() + seconds
        told = ""
        while True:
            error = None
            try:
                found = self.topics(wanted)
                missing = ", ".join(topic for topic in wanted if topic not in found)
                if not missing:
                    return found
                waiting = f"topic {missing}"
            except JobError as raised:
                error, waiting = raised, f"the brokers at {self._servers}"
            if waiting != told:
                on_wait(f"waiting up to {seconds:g} s for {waiting}")
                told = waiting
            if time.monotonic() >= deadline:
                raise error or JobError(
                    f"no topic {missing} at {self._servers} after {seconds:g} s. Create it (a view "
                    "topic with cleanup.policy=compact and the partitions the view is to have), "
                    "then start again."
                )
            time.sleep(0.5)

    def create_dead_letter_topic(self, topic: str) -> None:
        """Creates the topic unless it is there: one partition, compacted, the brokers' replication.

        Its limit of a record's size is twice Kafka's default, for what a rejected record has more.
        """
        config = {"cleanup.policy": "compact", "max.message.bytes": str(2 * 1024 * 1024)}
        why = self._create(topic, {**config, **NOT_FROM_THE_FUTURE})
        if why.startswith("InvalidConfiguration"):
            why = self._create(topic, config)
        if why and not why.startswith("TopicExists"):
            raise JobError(
                f"topic {topic} cannot be created: {why}. Create it: one partition, "
                "cleanup.policy=compact."
            )

    def _create(self, topic: str, config: dict[str, str]) -> str:
        """Creates a topic of one partition; why not, or nothing."""
        optional = self._jvm.java.util.Optional
        wanted = self._clients.admin.NewTopic(topic, optional.of(1), optional.empty())
        try:
            self._admin.createTopics([wanted.configs(config)]).all().get()
        except Py4JJavaError as error:
            return root_cause(error)
        return ""


def check_identity(session: SparkSession, checkpoint: str, ids: dict[str, str]) -> None:
    """Keeps the topics' ids in the checkpoint; ``JobError`` where they are others than before.

    ``checkpoint`` is a path of any file system that Hadoop knows.
    """
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/topics.json")
    files = path.getFileSystem(session._jsc.hadoopConfiguration())
    if files.exists(path):
        stream = files.open(path)
        try:
            before = json.loads(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8") or "{}")
        finally:
            stream.close()
        for topic, topic_id in ids.items():
            if before.get(topic, topic_id) != topic_id:
                raise made_anew(topic, checkpoint)
        if before == ids:
            return
    stream = files.create(path, True)
    try:
        stream.write(json.dumps(ids).encode())
    finally:
        stream.close()


def root_cause(error: Py4JJavaError) -> str:
    """``Class: message`` of the innermost Java exception."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
