"""Creates topics, and waits until all clients can use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from local.errors import LocalError
from local.waiting import wait_until
from model.kafka.config import NOT_FROM_THE_FUTURE


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to create; ``config`` has Kafka's names."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    replication: int = -1  # the broker's own default


def create_topics(admin: AdminClient, topics: Sequence[Topic], timeout: float = 30.0) -> list[str]:
    """Creates the missing topics and waits until all have leaders; returns the new names.

    An existing topic keeps its configuration. Raises ``LocalError`` if it has another number of
    partitions (backends would look up keys in the wrong one), or if the broker rejects a topic.
    """
    created, rejected = _create(admin, topics, NOT_FROM_THE_FUTURE, timeout)
    if any(reason.code() == KafkaError.INVALID_CONFIG for reason in rejected.values()):
        # The broker may be too old for this setting.
        again = [topic for topic in topics if topic.name in rejected]
        more, rejected = _create(admin, again, {}, timeout)
        created += more
    for name, reason in rejected.items():
        raise LocalError(f"cannot create topic {name}: {reason.str()}.")
    wait_until(
        lambda: all(_is_visible(admin, topic) for topic in topics),
        timeout,
        "the topics " + ", ".join(topic.name for topic in topics),
    )
    return created


def _create(
    admin: AdminClient, topics: Sequence[Topic], config: Mapping[str, str], timeout: float
) -> tuple[list[str], dict[str, KafkaError]]:
    """The names of the new topics, and the errors of the others."""
    wanted = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication,
            config={**config, **topic.config},
        )
        for topic in topics
    ]
    created: list[str] = []
    rejected: dict[str, KafkaError] = {}
    for name, future in admin.create_topics(wanted, operation_timeout=timeout).items():
        try:
            future.result(timeout)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                rejected[name] = error.args[0]
        else:
            created.append(name)
    return created, rejected


def _is_visible(admin: AdminClient, topic: Topic) -> bool:
    try:
        shown = admin.list_topics(topic.name, timeout=5.0).topics.get(topic.name)
    except KafkaException:
        return False
    if shown is None or shown.error is not None:
        return False
    if len(shown.partitions) != topic.partitions:
        raise LocalError(
            f"topic {topic.name} has {len(shown.partitions)} partitions and needs "
            f"{topic.partitions}. Delete it, or use another broker or data folder."
        )
    if any(partition.leader < 0 for partition in shown.partitions.values()):
        return False
    # The metadata has a leader shortly before the leader itself accepts requests.
    earliest = {TopicPartition(topic.name, p): OffsetSpec.earliest() for p in shown.partitions}  # type: ignore[no-untyped-call]
    try:
        for future in admin.list_offsets(earliest, request_timeout=5.0).values():
            future.result(5.0)
    except KafkaException:
        return False
    return True
