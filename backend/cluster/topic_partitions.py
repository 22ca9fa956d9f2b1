"""How many partitions a topic has, as the leader of the group knows it.

Each source may be some seconds old. A topic never loses partitions, so the largest number counts:
otherwise a new leader could remove new partitions again, and instances would answer as if they did
not exist. A topic that was created again has another id, and may have fewer.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

from model.records import hash_of_topic
from model.topology import Topology


class TopicPartitions(NamedTuple):
    """The hash of a topic's id (`hash_of_topic`; 0: unknown), and its number of partitions."""

    topic_hash: int
    partitions: int


MISSING = TopicPartitions(0, 0)


def newest(known: Iterable[TopicPartitions]) -> TopicPartitions:
    """The largest number of partitions among the sources with the same topic id as the first one.
    `known`: at least one source. The first source must be the one that learns first of a recreated
    topic."""
    sources = list(known)
    topic_hash = sources[0].topic_hash
    return max(source for source in sources if source.topic_hash == topic_hash)


def in_cluster(cluster: Any, topic: str) -> TopicPartitions:
    """The topic's partitions in kafka-python's metadata."""
    uuid = cluster.topic_id(topic)
    topic_hash = 0
    if uuid is not None:
        # as librdkafka writes it
        topic_hash = hash_of_topic(base64.b64encode(uuid.bytes).decode().rstrip("="))
    return TopicPartitions(topic_hash, len(cluster.partitions_for_topic(topic) or ()))


def in_topology(topology: Topology, topic: str) -> list[TopicPartitions]:
    """The topic's partitions for each of its views. The hash is 0 for a view that was placed before
    its stores were known."""
    return [
        TopicPartitions(placed.topic_hash, placed.partitions)
        for placed in topology.views.values()
        if placed.description["topic"] == topic
    ]
