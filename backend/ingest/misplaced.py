"""Whether records lie where their view's partitioner would put them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from backend.ingest.apply import count_mis_partitioned
from backend.ingest.facts import TopicFacts
from backend.ingest.held import HeldPartition


class Facts(Protocol):
    """What the watcher knows of a topic, and what it finds out when asked."""

    def facts(self, topic: str) -> TopicFacts | None: ...

    def fresh(self, topic: str) -> TopicFacts | None: ...


def count_misplaced(held: HeldPartition, keys: Sequence[bytes], watcher: Facts) -> int:
    """How many of these keys of new records belong to another partition.

    One verdict makes every miss of the view doubtful for good. A producer may know of added
    partitions before the watcher does, so the broker is asked before the first one.
    """
    topic = held.view.topic
    found = _count(held, keys, watcher.facts(topic))
    if found and not held.identity.mis_partitioned:
        found = _count(held, keys, watcher.fresh(topic))
    return found


def _count(held: HeldPartition, keys: Sequence[bytes], facts: TopicFacts | None) -> int:
    counts = {held.identity.partitions, *([facts.partitions] if facts else [])}
    return count_mis_partitioned(held.view, keys, held.partition, sorted(counts))
