"""The state of a view's replicas, from the members' metadata; the input of placement."""

from __future__ import annotations

from collections.abc import Mapping

from model.group.member_metadata import MemberMetadata


class ReplicaState:
    """The members with data of a view's partitions, and their positions."""

    def __init__(
        self,
        name: str,
        count: int,
        members: list[MemberMetadata],
        eligible: list[int],
        acceptable_lag: int,
    ) -> None:
        self._positions: list[dict[int, int]] = [{} for _ in range(count)]
        self._ready: list[set[int]] = [set() for _ in range(count)]
        for i in eligible:
            for partition, position in members[i].positions.get(name, {}).items():
                if partition < count:
                    self._positions[partition][i] = position
        self._lag = acceptable_lag
        for i in eligible:
            for partition in members[i].ready.get(name, ()):
                if partition < count and self._near(partition, i):
                    self._ready[partition].add(i)

    def _near(self, partition: int, member: int) -> bool:
        """Whether the member is at most `acceptable_lag` behind the best replica."""
        positions = self._positions[partition]
        return max(positions.values(), default=-1) - positions.get(member, -1) <= self._lag

    def position(self, partition: int, member: int) -> int:
        """The member's position; -1 if it has no data."""
        return self._positions[partition].get(member, -1)

    def positions(self, partition: int) -> Mapping[int, int]:
        """Member -> position."""
        return self._positions[partition]

    def ready(self, partition: int) -> set[int]:
        """Members that can answer for the partition immediately."""
        return self._ready[partition]

    def can_take_over(self, partition: int, member: int) -> bool:
        """Whether the member can become active now, because no other member would answer better."""
        if self._ready[partition]:
            return member in self._ready[partition]
        return self._near(partition, member)

    def best(self, partition: int, holder: int) -> int:
        """The member that answers best; on a tie, the current active `holder`."""
        ready = self._ready[partition]
        if holder in ready or (not ready and self._near(partition, holder)):
            return holder
        positions = self._positions[partition]
        return max(ready or positions, key=lambda i: (positions.get(i, -1), -i))
