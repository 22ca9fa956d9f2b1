"""Topologies of one view, and members that have its partitions, for tests of placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from backend.cluster.placement import Policy
from model.group.member_metadata import MemberMetadata
from model.topology import NO_MEMBER, Topology
from model.views import View
from tests.support.in_process.examples import ORDERS, candidate, view

ONE = Policy(standby_replicas=1, acceptable_recovery_lag=100)


GLOBAL = view("orders", store="global")


def ids(topology: Topology, name: str = "orders") -> list[str | None]:
    placed = topology.views[name]
    return [None if i == NO_MEMBER else topology.members[i].id for i in placed.active]


def standbys(topology: Topology, name: str = "orders") -> list[list[str]]:
    return [[topology.members[i].id for i in those] for those in topology.views[name].standbys]


def warming(topology: Topology, name: str = "orders") -> dict[int, str]:
    return {p: topology.members[i].id for p, i in topology.views[name].warming}


def holding(
    id_: str,
    active: Iterable[int] = (),
    standby: Iterable[int] = (),
    behind: int = 0,
    ready: bool = True,
    rack: str = "",
    of: View = ORDERS,
) -> MemberMetadata:
    """A member that holds these, each `behind` offset 1000."""
    both = (*active, *standby)
    return candidate(
        id_,
        [of],
        active={"orders": tuple(active)},
        standby={"orders": tuple(standby)},
        positions={"orders": dict.fromkeys(both, 1000 - behind)},
        ready={"orders": both if ready else ()},
        rack=rack,
    )


def spread(found: Counter[str], members: Iterable[str]) -> int:
    of_each = [found[id_] for id_ in members]
    return max(of_each) - min(of_each)
