"""Who stands by: on other members than the active, in other racks where there are any, evenly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from backend.cluster.quotas import Quotas
from backend.cluster.replica_state import ReplicaState
from model.topology import MemberMetadata


class Standbys:
    """Places the standbys of one view."""

    def __init__(
        self,
        active: list[int],
        warming: Mapping[int, int],
        eligible: list[int],
        members: list[MemberMetadata],
        holdings: ReplicaState,
        load: list[int],
        replicas: int,
        claimed: Mapping[int, set[int]],
    ) -> None:
        """`load` (standbys of each member so far) is added to. Whoever warms up is none of them: it
        is there beside them until it is active. `claimed` is who stands by now: it stays, as far as
        its share allows."""
        self._active = active
        self._warming = warming
        self._eligible = eligible
        self._rack = [c.member.rack for c in members]
        self._racks = Counter(self._rack[i] for i in eligible)
        self._holdings = holdings
        self._replicas = min(replicas, len(eligible) - 1)
        self._claimed = claimed
        self._shares = Quotas(
            len(active) * self._replicas, eligible, load, prefer=lambda i: -len(claimed[i])
        )
        self._chosen: list[list[int]] = [[] for _ in active]
        self._by_member: dict[int, set[int]] = {i: set() for i in eligible}

    def place(self) -> tuple[tuple[int, ...], ...]:
        """Standbys by partition, the one that has most first; empty where there can be none."""
        if self._replicas <= 0:
            return ()
        self._keep((p, i) for i, partitions in self._claimed.items() for p in partitions)
        every = range(len(self._active))
        self._keep((p, i) for p in every for i in self._holdings.of(p))
        self._fill()
        return tuple(
            tuple(sorted(those, key=lambda i: self._how_good(p, i)))
            for p, those in enumerate(self._chosen)
        )

    def _how_good(self, partition: int, member: int) -> tuple[bool, int, int]:
        """The least is who can answer, then who has most."""
        ready = member in self._holdings.ready(partition)
        return not ready, -self._holdings.position(partition, member), member

    def _free(self, partition: int, member: int) -> bool:
        """Whether it has nothing of the partition yet."""
        return (
            member != self._active[partition]
            and member != self._warming.get(partition)
            and member not in self._chosen[partition]
        )

    def _apart(self, partition: int, member: int) -> bool:
        """Whether its rack is another than those of the partition's other members."""
        others = (self._active[partition], *self._chosen[partition])
        return self._rack[member] not in {self._rack[i] for i in others}

    def _more_racks(self, partition: int) -> bool:
        """Whether somebody is free in a rack that has nothing of the partition."""
        if len(self._racks) == 1:
            return False
        used = {self._rack[i] for i in (self._active[partition], *self._chosen[partition])}
        warming = self._warming.get(partition)
        return any(
            size > (warming is not None and self._rack[warming] == rack)
            for rack, size in self._racks.items()
            if rack not in used
        )

    def _add(self, partition: int, member: int) -> None:
        self._chosen[partition].append(member)
        self._by_member[member].add(partition)
        self._shares.take(member)

    def _remove(self, partition: int, member: int) -> None:
        self._chosen[partition].remove(member)
        self._by_member[member].discard(partition)
        self._shares.give_back(member)

    def _keep(self, having: Iterable[tuple[int, int]]) -> None:
        """Gives members what they have (partition, member), those that can answer first."""
        for partition, member in sorted(having, key=lambda has: (*self._how_good(*has)[:2], *has)):
            if (
                len(self._chosen[partition]) < self._replicas
                and self._shares.room[member] > 0
                and self._free(partition, member)
                and (self._apart(partition, member) or not self._more_racks(partition))
            ):
                self._add(partition, member)

    def _fill(self) -> None:
        """Gives what is left to whoever has room."""
        for partition, chosen in enumerate(self._chosen):
            while len(chosen) < self._replicas:
                member = self._somebody(partition)
                if member is None:
                    # a warming one leaves too few
                    break
                self._add(partition, member)

    def _somebody(self, partition: int) -> int | None:
        """Who takes it: who has room; or one that gets more than its share, if need be."""
        more_racks = self._more_racks(partition)

        def fits(member: int) -> bool:
            return self._free(partition, member) and (
                not more_racks or self._apart(partition, member)
            )

        member = self._shares.emptiest(fits)
        if member is not None:
            return member
        crowded = [i for i in self._eligible if fits(i)]
        if not crowded:
            return None
        if not more_racks:
            member = self._make_room(crowded)
            if member is not None:
                return member
        # apart is worth more than even; who has it already stays, or it would move to and fro
        return max(crowded, key=lambda i: (partition in self._claimed[i], self._shares.room[i], -i))

    def _make_room(self, crowded: list[int]) -> int | None:
        """One of these, after one of its partitions went to somebody who has room."""
        for member in crowded:
            # what it has least of moves with the least loss
            for other in sorted(
                self._by_member[member],
                key=lambda p: (
                    member in self._holdings.ready(p),
                    self._holdings.position(p, member),
                    p,
                ),
            ):
                taker = self._shares.emptiest(partial(self._free, other))
                if taker is not None:
                    self._remove(other, member)
                    self._add(other, taker)
                    return member
        return None
