"""Counts what rebalances changed for this instance."""

from __future__ import annotations

from model.topology import Topology

_Partitions = set[tuple[str, int]]


class Rebalances:
    """Counts since the start. `gained`, `lost`: store partitions, as active or standby."""

    def __init__(self) -> None:
        self.count = self.gained = self.lost = 0

    def record(self, before: Topology, after: Topology, instance: str) -> None:
        """Count the replacement of a topology by a newer one."""
        held, now_held = _held(before, instance), _held(after, instance)
        self.count += 1
        self.gained += len(now_held - held)
        self.lost += len(held - now_held)


def _held(topology: Topology, instance: str) -> _Partitions:
    return {
        (view, partition)
        for view in topology.views
        for partitions in topology.roles_of(instance, view).values()
        for partition in partitions
    }
