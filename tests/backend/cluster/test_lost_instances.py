"""Which instances are lost, and which have only been stopped."""

from __future__ import annotations

import pytest

from backend.cluster import lost_instances as lost
from backend.cluster.lost_instances import LostInstances
from model.topology import Epoch, Member, Topology

B1, B2, B3 = (Member(f"b{n}", "127.0.0.1", n) for n in (1, 2, 3))


def a_map(*members: Member) -> Topology:
    return Topology(Epoch(1, 1), members)


def ids(of: LostInstances) -> list[str]:
    return [each.member.id for each in of.all()]


def test_who_misses_its_heartbeats_is_lost_until_it_is_back() -> None:
    noticed = LostInstances()
    noticed.dead(B2)
    [first] = noticed.all()
    noticed.dead(B2)
    assert noticed.all() == [first], "it was lost when that was noticed first"
    noticed.alive("b2")
    assert ids(noticed) == []


def test_who_goes_from_the_map_without_a_word_is_lost_and_stays_so() -> None:
    noticed = LostInstances()
    noticed.take_topology(a_map(B1, B2, B3), a_map(B1, B3), "b1", set())
    assert ids(noticed) == ["b2"]
    noticed.take_topology(a_map(B1, B3), a_map(B1), "b1", set())
    assert ids(noticed) == ["b2", "b3"]
    noticed.take_topology(a_map(B1), a_map(B1, B2), "b1", set())
    assert ids(noticed) == ["b3"]


def test_a_map_that_still_has_it_brings_nobody_back() -> None:
    noticed = LostInstances()
    noticed.dead(B2)
    noticed.take_topology(a_map(B1, B2), a_map(B1, B2, B3), "b1", {"b2"})
    assert ids(noticed) == ["b2"]


def test_who_said_that_it_stops_is_not_lost() -> None:
    noticed = LostInstances()
    noticed.leaving("b2")
    noticed.dead(B2)
    noticed.take_topology(a_map(B1, B2), a_map(B1), "b1", set())
    assert ids(noticed) == []
    # it is back, and then it is killed
    noticed.take_topology(a_map(B1), a_map(B1, B2), "b1", set())
    noticed.dead(B2)
    assert ids(noticed) == ["b2"]


def test_an_instance_that_the_map_leaves_out_is_not_lost_to_itself() -> None:
    noticed = LostInstances()
    noticed.take_topology(a_map(B1, B2), a_map(B2), "b1", set())
    assert ids(noticed) == []


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    noticed = LostInstances()
    for n in range(lost.MOST + 5):
        noticed.dead(Member(f"x{n}", "h", n))
    assert len(ids(noticed)) == lost.MOST
    assert ids(noticed)[0] == "x5", "the oldest are forgotten"
    monkeypatch.setattr(lost, "KEPT", -1)
    assert ids(noticed) == []
