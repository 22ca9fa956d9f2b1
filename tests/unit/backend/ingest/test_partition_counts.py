"""The numbers of partitions that a new store knows: all that its topic has had, as far as known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.ingest.lifecycle.recovery import StoreDeleted, open_partition
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import PartitionRegistry
from backend.storage.data_directory import DataDirectory
from model.records import hash_of_topic
from model.topology import Epoch, PlacedView, Topology
from tests.support.in_process.examples import ORDERS, metadata
from tests.support.in_process.instance import ME

PARTITIONS = 4


@pytest.mark.parametrize("may_copy", [False, True])
@pytest.mark.parametrize(
    ("topic_id", "end", "expected"),
    [("topic-1", 3, (1, 2, 3)), ("topic-0", 9, (3,))],
    ids=["the log was truncated", "the topic was recreated"],
)
def test_a_deleted_store_leaves_what_it_knew_of_the_topic(
    tmp_path: Path, topic_id: str, end: int, expected: tuple[int, ...], may_copy: bool
) -> None:
    folder = DataDirectory(tmp_path)
    store, _ = folder.open("orders", 0)
    written = metadata(topic_id=topic_id, partitions=2, earlier_counts=(1,))
    store.write(store.new_batch(), 5, written)
    store.close()
    found = TopicMetadata("topic-1", PARTITIONS, {0: 0}, {0: end}, None, 0.0)
    counts: Any = {"partition_counts": [3, PARTITIONS]}
    if may_copy:  # and no copy was fetched
        with pytest.raises(StoreDeleted) as raised:
            open_partition(folder, ORDERS, 0, found, 10, may_copy=True, **counts)
        counts["deleted_before"] = raised.value.metadata
    opened, reason = open_partition(folder, ORDERS, 0, found, 10, **counts)
    assert (reason is None) == may_copy
    assert (opened.metadata.partitions, opened.metadata.earlier_counts) == (PARTITIONS, expected)
    opened.store.close()
    folder.close()


@pytest.mark.parametrize(
    ("counts", "topic_hash", "expected"),
    [
        ((2,), hash_of_topic("topic-1"), {2, 3}),
        ((2,), hash_of_topic("topic-0"), set()),
        ((2,), 0, {2, 3}),  # the leader is of an older version
        ((), 0, set()),  # there was no store, so the topic is unknown
    ],
)
def test_a_topology_of_another_topic_is_not_used(
    counts: tuple[int, ...], topic_hash: int, expected: set[int]
) -> None:
    registry = PartitionRegistry((ORDERS,))
    placed = PlacedView(ORDERS.description(), ORDERS.hash, (0, 0, 0))
    placed = replace(placed, partition_counts=counts, topic_hash=topic_hash)
    registry.apply_topology(Topology(Epoch(1, 1), (ME,), {"orders": placed}))
    assert registry.partition_counts_of_topic(ORDERS, "topic-1") == expected
