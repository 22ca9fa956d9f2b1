"""Instances that are lost, and instances that have only been stopped."""

from __future__ import annotations

import time

import pytest

from backend.cluster import lost_instances as lost
from backend.cluster.lost_instances import LostInstances
from model.topology import Epoch, Member, Topology

B1, B2, B3 = (Member(f"b{n}", "127.0.0.1", n) for n in (1, 2, 3))


def topology(*members: Member) -> Topology:
    return Topology(Epoch(1, 1), members)


def ids(instances: LostInstances) -> list[str]:
    return [each.member.id for each in instances.all()]


def test_an_instance_that_misses_heartbeats_is_lost_until_it_is_back() -> None:
    instances = LostInstances()
    instances.dead(B2)
    [first] = instances.all()
    instances.dead(B2)
    assert instances.all() == [first], "the time is that of the first detection"
    instances.alive("b2")
    assert ids(instances) == []


def test_an_instance_that_leaves_the_topology_unannounced_stays_lost() -> None:
    instances = LostInstances()
    instances.apply_topology(topology(B1, B2, B3), topology(B1, B3), "b1", set())
    assert ids(instances) == ["b2"]
    instances.apply_topology(topology(B1, B3), topology(B1), "b1", set())
    assert ids(instances) == ["b2", "b3"]
    instances.apply_topology(topology(B1), topology(B1, B2), "b1", set())
    assert ids(instances) == ["b3"]


def test_a_dead_instance_stays_lost_while_the_topology_has_it() -> None:
    instances = LostInstances()
    instances.dead(B2)
    instances.apply_topology(topology(B1, B2), topology(B1, B2, B3), "b1", {"b2"})
    assert ids(instances) == ["b2"]


def test_an_instance_that_announced_its_stop_is_not_lost() -> None:
    instances = LostInstances()
    instances.leaving("b2")
    instances.dead(B2)
    instances.apply_topology(topology(B1, B2), topology(B1), "b1", set())
    assert ids(instances) == []
    # it comes back, and is killed then
    instances.apply_topology(topology(B1), topology(B1, B2), "b1", set())
    instances.dead(B2)
    assert ids(instances) == ["b2"]


def test_a_heartbeat_that_fails_after_an_instance_has_left_does_not_count() -> None:
    """Regression: an instance that had been stopped was lost for an hour, if a heartbeat to it was
    still in flight when the topology without it came."""
    instances = LostInstances()
    instances.leaving("b2")
    instances.apply_topology(topology(B1, B2, B3), topology(B1, B3), "b1", {"b2"})
    instances.dead(B2)
    assert ids(instances) == []
    instances.dead(B3)
    assert ids(instances) == ["b3"]
    # the same with an instance that was lost: it stays lost
    instances.apply_topology(topology(B1, B3), topology(B1), "b1", {"b3"})
    instances.dead(B3)
    assert ids(instances) == ["b3"]


def test_an_instance_outside_the_topology_does_not_count_itself_as_lost() -> None:
    instances = LostInstances()
    instances.apply_topology(topology(B1, B2), topology(B2), "b1", set())
    assert ids(instances) == []


def test_the_number_of_lost_instances_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    instances = LostInstances()
    for n in range(lost.MAX_INSTANCES + 5):
        instances.dead(Member(f"x{n}", "h", n))
    assert len(ids(instances)) == lost.MAX_INSTANCES
    assert ids(instances)[0] == "x5", "the oldest are dropped"
    monkeypatch.setattr(lost, "KEEP_FOR", -1)
    assert ids(instances) == []


@pytest.mark.slow
def test_a_heartbeat_that_is_overtaken_does_not_take_the_announcement_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was sent before "draining", and arrives after it. A later one is of a new process."""
    instances = LostInstances()
    both, one = topology(B1, B2), topology(B1)
    instances.leaving("b2")
    instances.alive("b2")
    instances.apply_topology(both, one, "b1", set())
    assert ids(instances) == []
    instances.leaving("b2")
    later = time.monotonic() + 5
    monkeypatch.setattr(time, "monotonic", lambda: later)
    instances.alive("b2")
    instances.apply_topology(both, one, "b1", set())
    assert ids(instances) == ["b2"]
