"""Detects mispartitioned records: records in a partition other than their key's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from backend.ingest.batch import count_mispartitioned
from backend.ingest.store_partitions import StorePartition
from backend.ingest.topic_metadata import TopicMetadata


class Broker(Protocol):
    def fresh(self, topic: str) -> TopicMetadata | None:
        """Metadata fetched after this call, if the broker answers."""


def known_counts(
    store_partition: StorePartition, topic_metadata: TopicMetadata | None
) -> list[int]:
    """The partition counts with which producers may have written the store partition's records."""
    return sorted(
        {
            store_partition.metadata.partitions,
            *([topic_metadata.partitions] if topic_metadata else []),
        }
    )


def confirmed_mispartitioned(
    store_partition: StorePartition, keys: Sequence[bytes], counts: Sequence[int], broker: Broker
) -> int:
    """The number of keys of new records that belong to another partition, under all `counts`.

    A single mispartitioned record makes every read of the view ask all partitions from then on. A
    producer may learn of added partitions before this instance does, so the broker is asked before
    the first record is counted.
    """
    view, partition = store_partition.view, store_partition.partition
    found = count_mispartitioned(view, keys, partition, counts)
    if found and not store_partition.metadata.mispartitioned:
        newest = known_counts(store_partition, broker.fresh(view.topic))
        found = count_mispartitioned(view, keys, partition, newest)
    return found
