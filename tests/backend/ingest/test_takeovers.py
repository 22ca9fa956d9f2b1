"""Dead letters when somebody takes a partition over: none is lost that the active had not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.reference.tables import Record

BAD = Record(0, b"a", (), b"no json", 10, sound=False, raw_key=b"a")
B1, B2, B3 = range(3)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """b1 is active, and has not read the dead letter that there is; b2 and b3 have. b3 does not
    know any more: it was killed, or began with a copy."""
    made = Cluster(tmp_path, ORDERS, partitions=1)
    made.place([B1], [[B2, B3]])
    made.settle()
    made.write(BAD, 0)
    for id_ in ("b2", "b3"):
        made.turn(id_)
    made.crash("b3")
    made.start("b3")
    made.turn("b3")
    assert made.letters.sent == set()
    yield made
    made.close()


@pytest.mark.parametrize("standbys", [[B2], []], ids=["stands by", "lets go"])
def test_who_has_read_a_dead_letter_writes_it_whoever_takes_over(
    cluster: Cluster, standbys: list[int]
) -> None:
    cluster.crash("b1")
    cluster.place([B3], [standbys])
    cluster.settle()
    assert cluster.letters.sent == {(0, 0)}


def test_a_map_with_the_same_active_is_no_reason_to_write(cluster: Cluster) -> None:
    cluster.place([B1], [[B2]])
    cluster.turn("b2")
    assert cluster.letters.sent == set()
    cluster.settle()
    assert cluster.letters.sent == {(0, 0)}, "by the active"
