"""Streams of changes in a view that becomes mispartitioned: a key may then change elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from backend.queries.change_backlog import BacklogBudget
from backend.queries.changes import Changes
from backend.queries.moved_keys import PartitionUnknown
from backend.queries.point import ViewReads
from tests.support.in_process.cluster import Cluster
from tests.support.reference.tables import Record
from tests.unit.backend.queries.scans.any_partition import cluster, put

KEY = b"key 1"


def _stray(made: Cluster) -> int:
    """A partition of another instance that is not the key's."""
    return (made.home(KEY) + 1) % 3


def _holder(made: Cluster, partition: int) -> str:
    return f"b{made.active[partition] + 1}"


def _changes(made: Cluster, id_: str) -> Changes:
    reads = ViewReads(made.view, made.nodes[id_].context)
    return Changes(reads, KEY, None, BacklogBudget())


@pytest.mark.parametrize("is_here", [True, False])
def test_a_stream_ends_when_the_view_becomes_mispartitioned(tmp_path: Path, is_here: bool) -> None:
    """Regression: its client heard of no change in the other partition, and of no end."""
    with cluster(tmp_path) as made:
        home, stray = made.home(KEY), _stray(made)
        if is_here:  # the instance of the key reads the stray record itself
            active = list(made.active)
            active[stray] = active[home]
            made.place(active)
            made.settle()
        put(made, home, KEY, b"1", 10)

        async def follow() -> list[bytes]:
            events = _changes(made, _holder(made, home)).events()
            found = [await anext(events)]
            made.write(Record(0, KEY, (), b"2", 20), stray)
            made.settle()
            return [*found, *[event async for event in events]]

        found = asyncio.run(asyncio.wait_for(follow(), 5))
        assert len(found) == 1
        for id_ in made.nodes:
            answer = made.ask(id_, "GET", "/views/orders/keys/key%201/changes")
            assert (answer.status, answer.json()["code"]) == (503, "mis-partitioned")


def test_an_instance_that_has_read_a_stray_record_follows_no_key(tmp_path: Path) -> None:
    """Regression: until the topology said so, too, the first event was `deleted`."""
    with cluster(tmp_path) as made:
        made.place([0, 0, 0])
        made.settle()
        made.mispartitioned = True  # the topology does not say it
        put(made, _stray(made), KEY, b"2", 20)
        assert not made.nodes["b1"].store_partitions.topology_mispartitioned
        with pytest.raises(PartitionUnknown):
            _changes(made, "b1")
