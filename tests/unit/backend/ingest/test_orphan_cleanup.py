"""Stores are deleted some time after their partition was assigned to other instances. They are
kept while it is not known where the partition is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.ingest.lifecycle import partitions
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.node import Node


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Two instances with a partition each, which have opened it. Each turn cleans up."""
    monkeypatch.setattr(partitions, "_TOUCH_EVERY", 0.0)
    made = Cluster(tmp_path, ORDERS, instances=2, partitions=2)
    made.settle()
    yield made
    made.close()


def clean_up(node: Node) -> list[int]:
    """The partitions that are still on disk when the cleanup delay is over."""
    node.ingest.lifecycle._orphans._delay = 0.0
    node.turn(most=10)
    return node.folder.on_disk().get("orders", [])


def test_a_partition_that_has_moved_is_deleted_after_the_delay(cluster: Cluster) -> None:
    node = cluster.nodes["b1"]
    cluster.place([1, 1])
    node.turn(most=10)
    assert node.folder.on_disk() == {"orders": [0]}
    assert clean_up(node) == []


def test_nothing_is_deleted_before_the_first_topology(cluster: Cluster) -> None:
    """The group has not had a leader since the start."""
    member = cluster.nodes["b1"].member
    cluster.stop("b1")
    node = cluster.nodes["b1"] = Node(cluster, member, cluster._folder / "b1")
    assert clean_up(node) == [0]


def test_nothing_is_deleted_while_the_leader_does_not_know_the_topic(cluster: Cluster) -> None:
    """Its metadata may lack the topic for a while. Then the topology has no partition of it."""
    node = cluster.nodes["b1"]
    cluster.place([])
    assert clean_up(node) == [0]
    cluster.place([1, 1])
    assert clean_up(node) == []
