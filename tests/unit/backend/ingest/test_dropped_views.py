"""The stores of a dropped version are deleted as soon as nothing reads them any more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.reference.tables import Record


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, ORDERS, instances=1, partitions=2)
    key = b"key"
    made.write(Record(0, key, (), b"1", 10), made.home(key))
    made.settle()
    yield made
    made.close()


def on_disk(cluster: Cluster) -> list[int]:
    return sorted(cluster.nodes["b1"].folder.on_disk().get("orders", ()))


def test_a_dropped_view_is_deleted_when_it_is_assigned_no_more(cluster: Cluster) -> None:
    node = cluster.nodes["b1"]
    assert on_disk(cluster) == [0, 1]
    node.ingest.lifecycle.drop({"orders"})
    cluster.turn("b1")
    # the group's leader still wants it here, and it is open
    assert on_disk(cluster) == [0, 1]
    node.ingest.loop.assign({}, set(), set())
    cluster.turn("b1")
    assert on_disk(cluster) == []
    assert node.store_partitions.all() == []


def test_other_views_stay(cluster: Cluster) -> None:
    node = cluster.nodes["b1"]
    node.ingest.lifecycle.drop({"orders@2"})
    node.ingest.loop.assign({}, set(), set())
    for _ in range(3):
        cluster.turn("b1")
    # until the cleanup delay is over
    assert on_disk(cluster) == [0, 1]
