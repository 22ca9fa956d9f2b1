"""What a member of the group asks its instance for."""

from __future__ import annotations

import logging

import pytest

from backend.cluster.member import GroupMember
from backend.cluster.placement import Policy, place
from model.topology import MemberMetadata, Topology
from tests.support.in_process.examples import candidate


class Instance:
    """Counts how often its metadata are taken: each time it believes that the leader has them."""

    def __init__(self) -> None:
        self.reports = 0
        self.topologies: list[Topology] = []

    def metadata(self) -> MemberMetadata:
        self.reports += 1
        return candidate("b1")


def joined(instance: Instance) -> GroupMember:
    """After a join."""
    member = GroupMember(
        frozenset(["orders"]), "group", {}, 2_000, 500,
        instance.metadata, instance.topologies.append, Policy(),
    )  # fmt: skip
    member._metadata()
    return member


def test_a_topology_takes_no_metadata_that_the_leader_does_not_get() -> None:
    """Else a partition that becomes answerable between a join and its topology counts as reported,
    and stays warming for ten seconds."""
    instance = Instance()
    member = joined(instance)
    topology = place([candidate("b1")], {"orders": 1}, 5)
    member._topology(topology)
    assert instance.topologies == [topology]
    assert instance.reports == 1


def test_one_that_is_not_in_the_topology_says_so(caplog: pytest.LogCaptureFixture) -> None:
    member = joined(Instance())
    with caplog.at_level(logging.ERROR):
        member._topology(place([candidate("b2")], {"orders": 1}, 5))
    assert "instance b1 (127.0.0.1:8081) is not in the topology" in caplog.text
