"""The reference model itself: regressions."""

from __future__ import annotations

from model.views import View
from tests.support.reference.tables import FOREVER, Record, Table, fold

VIEW = View(
    name="versions",
    topic="versions",
    path="/versions",
    key="string",
    value="json",
    partitioner="murmur2",
    store="versioned",
    retention=50,
)


def test_a_key_expires_by_the_clock_of_its_own_partition() -> None:
    mine = [
        Record(0, b"a", (), b"1", 94),
        Record(1, b"a", (), b"2", 125),
        Record(2, b"a", (), None, 143),
    ]
    others = [Record(0, b"b", (), b"3", 500)]
    partitions = {0: fold(VIEW, 0, others, 1), 1: fold(VIEW, 1, mine, 3)}
    listing = Table(VIEW, dict(partitions)).only([1]).history(b"a", 115, FOREVER)
    assert [item for _, item in listing] == [
        {"valid_from": 94, "valid_to": 125, "value": 1},
        {"valid_from": 125, "valid_to": 143, "value": 2},
    ]
