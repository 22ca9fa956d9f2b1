"""Who has what of a view's partitions, as the members say: what placement is made from."""

from __future__ import annotations

from collections.abc import Mapping

from model.topology import MemberMetadata


class ReplicaState:
    """Which members have something of a view's partitions, and how much."""

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
        """Whether it is at most `acceptable_lag` behind whoever has most."""
        positions = self._positions[partition]
        return max(positions.values(), default=-1) - positions.get(member, -1) <= self._lag

    def position(self, partition: int, member: int) -> int:
        """-1 where it has nothing."""
        return self._positions[partition].get(member, -1)

    def of(self, partition: int) -> Mapping[int, int]:
        """Member -> position."""
        return self._positions[partition]

    def ready(self, partition: int) -> set[int]:
        """Members that answer for it at once."""
        return self._ready[partition]

    def can_take_over(self, partition: int, member: int) -> bool:
        """Whether nobody would answer better."""
        if self._ready[partition]:
            return member in self._ready[partition]
        return self._near(partition, member)

    def best(self, partition: int, holder: int) -> int:
        """Who answers best of those that have something; the present one, of equals."""
        ready = self._ready[partition]
        if holder in ready or (not ready and self._near(partition, holder)):
            return holder
        positions = self._positions[partition]
        return max(ready or positions, key=lambda i: (positions.get(i, -1), -i))
