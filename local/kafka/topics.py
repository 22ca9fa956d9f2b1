"""Creates topics, and waits until all clients can use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from local.errors import LocalError
from local.waiting import wait_until
from model.kafka.admin import EARLIEST, create_topic, offsets, reason_of
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
    created = [topic.name for topic in topics if _is_created(admin, topic, timeout)]
    wait_until(
        lambda: all(_is_visible(admin, topic) for topic in topics),
        timeout,
        "the topics " + ", ".join(topic.name for topic in topics),
    )
    return created


def _is_created(admin: AdminClient, topic: Topic, timeout: float) -> bool:
    """Creates the topic; False if it exists."""
    try:
        return create_topic(
            admin,
            topic.name,
            topic.partitions,
            topic.config,
            timeout,
            replication=topic.replication,
            optional=NOT_FROM_THE_FUTURE,
        )
    except (KafkaException, TimeoutError) as error:
        raise LocalError(f"cannot create topic {topic.name}: {reason_of(error)}.") from None


def _is_visible(admin: AdminClient, topic: Topic) -> bool:
    try:
        metadata = admin.list_topics(topic.name, timeout=5.0).topics.get(topic.name)
    except KafkaException:
        return False
    if metadata is None or metadata.error is not None:
        return False
    if len(metadata.partitions) != topic.partitions:
        raise LocalError(
            f"topic {topic.name} has {len(metadata.partitions)} partitions and needs "
            f"{topic.partitions}. Delete it, or use another broker or data folder."
        )
    if any(partition.leader < 0 for partition in metadata.partitions.values()):
        return False
    # The metadata has a leader shortly before the leader itself accepts requests.
    try:
        offsets(admin, {topic.name: metadata.partitions}, EARLIEST, 5.0)
    except (KafkaException, TimeoutError):
        return False
    return True
