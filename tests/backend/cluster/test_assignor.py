"""What the group's leader gives each member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from backend.cluster.assignor import TopologyAssignor
from backend.cluster.placement import Policy
from model.topology import Topology
from tests.support.in_process.examples import ORDERS, candidate, view


def assign(*candidates: Any, partitions: int) -> dict[str, Any]:
    assignor = TopologyAssignor(lambda: candidate("b1"), lambda topology: None, Policy())
    members = [
        SimpleNamespace(member_id=f"member-{number}", metadata=SimpleNamespace(user_data=each))
        for number, each in enumerate(candidates)
    ]
    cluster = SimpleNamespace(partitions_for_topic=lambda topic: set(range(partitions)))
    return assignor.assign(cluster, members)


def test_each_topic_partition_is_assigned_once_for_kafkas_tools() -> None:
    """Also if two views have the same topic, whose partitions other members may have."""
    second = view("orders-again", topic=ORDERS.topic)
    members = [candidate(f"b{n}", views=[ORDERS, second]).encode() for n in (1, 2, 3)]
    found = assign(*members, partitions=7)
    assert len(found) == 3
    topology = Topology.decode(found["member-0"].user_data, 1)
    active = topology.views["orders"].active
    for number in range(3):
        given = found[f"member-{number}"]
        assert given.user_data == found["member-0"].user_data
        own = [p for p, index in enumerate(active) if index == number]
        assert [list(each) for each in given.assigned_partitions] == [[ORDERS.topic, own]]
    assert len(active) == 7


def test_a_member_with_malformed_metadata_gets_no_partitions() -> None:
    found = assign(candidate("b1").encode(), b"nonsense", None, partitions=2)
    assert [list(each) for each in found["member-0"].assigned_partitions] != []
    for other in ("member-1", "member-2"):
        assert found[other].assigned_partitions == []
        assert Topology.decode(found[other].user_data, 1).members[0].id == "b1"
