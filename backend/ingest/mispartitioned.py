"""Whether records lie where their view's partitioner would put them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from backend.ingest.batch import count_mis_partitioned
from backend.ingest.store_partitions import StorePartition
from backend.ingest.topic_metadata import TopicMetadata


class Broker(Protocol):
    def fresh(self, topic: str) -> TopicMetadata | None:
        """What is so from this call on, as far as the broker answers."""


def known_counts(held: StorePartition, facts: TopicMetadata | None) -> list[int]:
    """The partition counts under which records of the store partition may have been written."""
    return sorted({held.identity.partitions, *([facts.partitions] if facts else [])})


def count_misplaced(
    held: StorePartition, keys: Sequence[bytes], counts: Sequence[int], broker: Broker
) -> int:
    """How many of these keys of new records belong to another partition, by `counts`.

    One verdict makes every miss of the view doubtful for good. A producer may know of added
    partitions before this instance does, so the broker is asked before the first one.
    """
    view, partition = held.view, held.partition
    found = count_mis_partitioned(view, keys, partition, counts)
    if found and not held.identity.mis_partitioned:
        newest = known_counts(held, broker.fresh(view.topic))
        found = count_mis_partitioned(view, keys, partition, newest)
    return found
