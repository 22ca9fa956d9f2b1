"""Tests of dead letters when another instance becomes active: none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.reference.tables import Record

BAD = Record(0, b"a", (), b"no json", 10, sound=False, is_of_value=True)
B1, B2, B3 = range(3)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """b1 is active and has not read the dead letter. b2 and b3 have read it. b3 has restarted and
    no longer has it in memory."""
    new_cluster = Cluster(tmp_path, ORDERS, partitions=1)
    new_cluster.place([B1], [[B2, B3]])
    new_cluster.settle()
    new_cluster.write(BAD, 0)
    for id_ in ("b2", "b3"):
        new_cluster.turn(id_)
    new_cluster.crash("b3")
    new_cluster.start("b3")
    new_cluster.turn("b3")
    assert new_cluster.letters.sent == set()
    yield new_cluster
    new_cluster.close()


@pytest.mark.parametrize("standbys", [[B2], []], ids=["stays standby", "loses the partition"])
def test_an_instance_that_has_read_a_dead_letter_writes_it_after_a_takeover(
    cluster: Cluster, standbys: list[int]
) -> None:
    cluster.crash("b1")
    cluster.place([B3], [standbys])
    cluster.settle()
    assert cluster.letters.sent == {(0, 0)}


def test_a_topology_with_the_same_active_does_not_cause_a_write(cluster: Cluster) -> None:
    cluster.place([B1], [[B2]])
    cluster.turn("b2")
    assert cluster.letters.sent == set()
    cluster.settle()
    assert cluster.letters.sent == {(0, 0)}, "by the active"
