"""Detects mispartitioned records: records in another partition than the partition of their key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from backend.ingest.batch import count_mispartitioned
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import PartitionRegistry, StorePartition


class MetadataSource(Protocol):
    def fresh(self, topic: str) -> TopicMetadata | None:
        """Metadata fetched after this call, if the broker answers."""


def known_counts(
    store_partition: StorePartition,
    topic_metadata: TopicMetadata | None,
    registry: PartitionRegistry,
) -> list[int]:
    """The partition counts with which producers may have written the store partition's records."""
    return sorted(
        {
            *store_partition.metadata.partition_counts,
            *registry.partition_counts(store_partition.view),
            *([topic_metadata.partitions] if topic_metadata else []),
        }
    )


def confirmed_mispartitioned(
    store_partition: StorePartition,
    keys: Sequence[bytes],
    counts: Sequence[int],
    source: MetadataSource,
    registry: PartitionRegistry,
) -> int:
    """The number of keys of new records that belong to another partition, under all `counts`.

    After the first mispartitioned record, every read of the view asks all partitions. A producer
    may learn of added partitions before this instance does, so the metadata is fetched again before
    the first record is counted.
    """
    view, partition = store_partition.view, store_partition.partition
    count = count_mispartitioned(view, keys, partition, counts)
    if count and not store_partition.metadata.mispartitioned:
        newest_counts = known_counts(store_partition, source.fresh(view.topic), registry)
        count = count_mispartitioned(view, keys, partition, newest_counts)
    return count
