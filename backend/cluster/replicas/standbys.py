"""Places standbys: on other members than the active, in other racks if possible, balanced."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from backend.cluster.replicas.quotas import Quotas
from backend.cluster.replicas.replica_state import ReplicaState
from model.group.member_metadata import MemberMetadata


class Standbys:
    """Places the standbys of one view."""

    def __init__(
        self,
        active: list[int],
        warming: Mapping[int, int],
        eligible: list[int],
        members: list[MemberMetadata],
        replica_state: ReplicaState,
        load: list[int],
        replicas: int,
        claimed: Mapping[int, set[int]],
    ) -> None:
        """`load`: standbys by member, assigned so far; updated. `claimed`: the current standbys by
        member, which stay as far as the quotas allow. A warming member is not a standby: it is an
        additional replica until it becomes active."""
        self._active = active
        self._warming = warming
        self._eligible = eligible
        self._rack = [c.member.rack for c in members]
        self._racks = Counter(self._rack[i] for i in eligible)
        self._replica_state = replica_state
        self._load = load
        self._replicas = min(replicas, len(eligible) - 1)
        self._claimed = claimed
        self._quotas = Quotas(
            len(active) * self._replicas, eligible, load, prefer=lambda i: -len(claimed[i])
        )
        self._chosen: list[list[int]] = [[] for _ in active]
        self._by_member: dict[int, set[int]] = {i: set() for i in eligible}

    def place(self) -> tuple[tuple[int, ...], ...]:
        """Standbys by partition, the most advanced first; empty if none are possible."""
        if self._replicas <= 0:
            return ()
        if self._replicas == len(self._eligible) - 1:
            return self._all_others()
        self._keep((p, i) for i, partitions in self._claimed.items() for p in partitions)
        every = range(len(self._active))
        self._keep(
            (p, i) for p in every for i in self._replica_state.positions(p) if i in self._by_member
        )
        self._fill()
        return tuple(
            tuple(sorted(chosen, key=lambda i: self._how_good(p, i)))
            for p, chosen in enumerate(self._chosen)
        )

    def _all_others(self) -> tuple[tuple[int, ...], ...]:
        """All members but the active: there is nothing to choose.

        They are in the order of the members, beginning after the active. Only the first one may be
        out of order: it can answer, if any member can. This order compresses well, because all
        lists with the same active are nearly the same. With many instances, the order of
        `_how_good` makes the topology too large.
        """
        for partition, (active, chosen) in enumerate(zip(self._active, self._chosen, strict=True)):
            free = [i for i in self._eligible if self._free(partition, i)]
            after = bisect(free, active)
            chosen += free[after:] + free[:after]
            ready = self._replica_state.ready(partition)
            first = next((i for i in chosen if i in ready), None)
            if first is not None:
                chosen.remove(first)
                chosen.insert(0, first)
            for member in chosen:
                self._load[member] += 1
        return tuple(map(tuple, self._chosen))

    def _how_good(self, partition: int, member: int) -> tuple[bool, int, int]:
        """Sort key: members that can answer first, then by position."""
        ready = member in self._replica_state.ready(partition)
        return not ready, -self._replica_state.position(partition, member), member

    def _free(self, partition: int, member: int) -> bool:
        """Whether the member has no role for the partition yet."""
        return (
            member != self._active[partition]
            and member != self._warming.get(partition)
            and member not in self._chosen[partition]
        )

    def _apart(self, partition: int, member: int) -> bool:
        """Whether the member is in another rack than the partition's other replicas."""
        replicas = (self._active[partition], *self._chosen[partition])
        return self._rack[member] not in {self._rack[i] for i in replicas}

    def _more_racks(self, partition: int) -> bool:
        """Whether a free member exists in a rack without a replica of the partition."""
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
        self._quotas.take(member)

    def _remove(self, partition: int, member: int) -> None:
        self._chosen[partition].remove(member)
        self._by_member[member].discard(partition)
        self._quotas.give_back(member)

    def _keep(self, having: Iterable[tuple[int, int]]) -> None:
        """Keep existing replicas (partition, member), those that can answer first."""
        for partition, member in sorted(having, key=lambda has: (*self._how_good(*has)[:2], *has)):
            if (
                len(self._chosen[partition]) < self._replicas
                and self._quotas.room[member] > 0
                and self._free(partition, member)
                and (self._apart(partition, member) or not self._more_racks(partition))
            ):
                self._add(partition, member)

    def _fill(self) -> None:
        """Assign the missing standbys to members with room."""
        for partition, chosen in enumerate(self._chosen):
            while len(chosen) < self._replicas:
                member = self._choose(partition)
                if member is None:
                    # too few members, because one is warming
                    break
                self._add(partition, member)

    def _choose(self, partition: int) -> int | None:
        """A member for a standby: a member with room, or else a member above its quota."""
        more_racks = self._more_racks(partition)

        def fits(member: int) -> bool:
            return self._free(partition, member) and (
                not more_racks or self._apart(partition, member)
            )

        member = self._quotas.emptiest(fits)
        if member is not None:
            return member
        crowded = [i for i in self._eligible if fits(i)]
        if not crowded:
            return None
        if not more_racks:
            member = self._make_room(crowded)
            if member is not None:
                return member
        # Separate racks matter more than balance. Existing replicas stay, or they would move back
        # and forth.
        return max(crowded, key=lambda i: (partition in self._claimed[i], self._quotas.room[i], -i))

    def _make_room(self, crowded: list[int]) -> int | None:
        """One of these members, after moving one of its standbys to a member with room."""
        for member in crowded:
            # the least advanced replica is the cheapest to move
            for partition in sorted(
                self._by_member[member],
                key=lambda p: (
                    member in self._replica_state.ready(p),
                    self._replica_state.position(p, member),
                    p,
                ),
            ):
                taker = self._quotas.emptiest(partial(self._free, partition))
                if taker is not None:
                    self._remove(partition, member)
                    self._add(partition, taker)
                    return member
        return None
