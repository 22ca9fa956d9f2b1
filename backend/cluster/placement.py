"""Who is active and who stands by for which partition: a pure function, run by the group's leader.

Sticky and balanced, as KIP-54 describes sticky assignment, and aware of lag, as KIP-441 is: every
view's partitions are spread within one, the total of all views too, and within that a partition
stays with whom it is. Who shall be active and is far behind stands by until it has caught up
(*warming*); who can answer stays active until then.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.cluster.quotas import Quotas
from backend.cluster.replica_state import ReplicaState
from backend.cluster.standbys import Standbys
from model.topology import NOBODY, Epoch, MemberMetadata, PlacedView, Topology

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Policy:
    """What a deployment wants of its placement."""

    standby_replicas: int = 0  # beside the active, as far as there are instances
    acceptable_recovery_lag: int = 10_000  # records behind the best holder, to be active at once


def place(
    candidates: Iterable[MemberMetadata],
    partitions: Mapping[str, int],
    now_ms: int,
    policy: Policy = Policy(),
    secret: str = "",
) -> Topology:
    """The map for these members.

    `partitions`: topic -> its partition count as the broker says; a topic that is not there has
    none. The epoch's generation is 0 here: Kafka tells it to every member with the assignment.
    `secret` is taken if the members have none yet.
    """
    members = _one_per_id(candidates)
    newest = max(members, key=lambda c: c.epoch, default=None)
    highest = newest.epoch if newest else Epoch(0, 0)
    loads = _Loads([0] * len(members), [0] * len(members))
    views = {}
    for name in sorted({view for c in members for view in c.views}):
        hash_ = _prevailing_hash(name, members)
        eligible = [i for i, c in enumerate(members) if c.views.get(name, ("",))[0] == hash_]
        description = members[eligible[0]].views[name][1]
        count = partitions.get(description["topic"], 0)
        holder = _holders(name, count, members, eligible)
        active, standbys, warming = _place_view(
            name, count, members, eligible, holder, loads, policy
        )
        built = [c.built[name] for c in members if c.built.get(name)]
        views[name] = PlacedView(
            description,
            hash_,
            active,
            mis_partitioned=_mis_partitioned(name, active, members),
            built_partitions=min([count, *built]),
            standbys=standbys,
            warming=warming,
            moved=tuple(p for p, i in sorted(holder.items()) if active[p] != i),
        )
    return Topology(
        # a clock that went back must not make an epoch that is below one already seen
        epoch=Epoch(max(now_ms, highest.ms + 1), 0),
        members=tuple(c.member for c in members),
        views=views,
        secret=(newest.secret if newest else "") or secret,
    )


@dataclass
class _Loads:
    """Partitions that each member has been given so far, of all views."""

    active: list[int]
    standby: list[int]


def _one_per_id(candidates: Iterable[MemberMetadata]) -> list[MemberMetadata]:
    """Of members with one id the one that started last: the other is dead, or a mistake."""
    newest: dict[str, MemberMetadata] = {}
    for candidate in candidates:
        other = newest.get(candidate.member.id)
        if other is None or candidate.started_at > other.started_at:
            newest[candidate.member.id] = candidate
    return [newest[id_] for id_ in sorted(newest)]


def _prevailing_hash(view: str, members: list[MemberMetadata]) -> str:
    """The definition that most members have; of equals the one that is answering already."""
    votes = Counter(c.views[view][0] for c in members if view in c.views)
    if len(votes) > 1:
        log.warning("view %s is defined in %d ways in this group: %s", view, len(votes), votes)
    answering = {c.views[view][0] for c in members if view in c.views and c.active.get(view)}
    return max(votes, key=lambda hash_: (votes[hash_], hash_ in answering, hash_))


def _mis_partitioned(name: str, active: tuple[int, ...], members: list[MemberMetadata]) -> bool:
    """Whether a member saw a misplaced record, or one saw it that is gone.

    Whoever gets a partition now may not have read as far as that one had: until all partitions are
    where they were, what the map said before stays true.
    """
    if any(name in c.mis_partitioned for c in members):
        return True
    doubted = any(name in c.doubtful for c in members)
    return doubted and any(
        index == NOBODY or partition not in members[index].active.get(name, ())
        for partition, index in enumerate(active)
    )


def _place_view(
    name: str,
    count: int,
    members: list[MemberMetadata],
    eligible: list[int],
    holder: Mapping[int, int],
    loads: _Loads,
    policy: Policy,
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[tuple[int, int], ...]]:
    """Actives, standbys and (partition, member) of those that warm up; adds to the loads."""
    holdings = ReplicaState(name, count, members, eligible, policy.acceptable_recovery_lag)
    wanted = _wanted(count, eligible, holder, holdings, loads.active)
    active = list(wanted)
    warming = []
    for partition, index in enumerate(wanted):
        if holdings.can_take_over(partition, index):
            continue
        answering = holdings.best(partition, holder.get(partition, NOBODY))
        if answering != index:
            active[partition] = answering
            warming.append((partition, index))
    claimed = {i: {p for p in members[i].standby.get(name, ()) if p < count} for i in eligible}
    placing = Standbys(
        active, dict(warming), eligible, members, holdings, loads.standby, policy.standby_replicas,
        claimed,
    )  # fmt: skip
    return tuple(active), placing.place(), tuple(warming)


def _wanted(
    count: int,
    eligible: list[int],
    holder: Mapping[int, int],
    holdings: ReplicaState,
    load: list[int],
) -> list[int]:
    """Who shall be active in the end: balanced, and as few moves as that allows."""
    holds: dict[int, set[int]] = {i: set() for i in eligible}
    for partition, i in holder.items():
        holds[i].add(partition)
    # of equals, whoever has more to keep gets one more
    shares = Quotas(count, eligible, load, prefer=lambda i: -len(holds[i]))
    wanted = [NOBODY] * count

    def give(partition: int, member: int) -> None:
        wanted[partition] = member
        shares.take(member)

    lacking = {i for i in eligible if len(holds[i]) < shares.room[i]}
    for i in eligible:
        # what another can take over without a copy is given up first
        mine = sorted(
            holds[i],
            key=lambda p: (
                not lacking.isdisjoint(holdings.ready(p)), not lacking.isdisjoint(holdings.of(p)), p
            ),
        )  # fmt: skip
        for partition in mine[: shares.room[i]]:
            give(partition, i)
    free = [p for p in range(count) if wanted[p] == NOBODY]
    # those first that have least choice
    for partition in sorted(free, key=lambda p: (not holdings.ready(p), len(holdings.ready(p)), p)):
        having = [
            i for i in holdings.ready(partition) or holdings.of(partition) if shares.room[i] > 0
        ]
        if having:
            key = {i: (holdings.position(partition, i), shares.room[i], -i) for i in having}
            give(partition, max(having, key=key.__getitem__))
    for partition in free:
        if wanted[partition] == NOBODY:
            having = [i for i in holdings.of(partition) if shares.room[i] > 0]
            member = (
                max(having, key=lambda i: (holdings.position(partition, i), shares.room[i], -i))
                if having
                else shares.emptiest()
            )
            assert member is not None  # the rooms' sum is the count
            give(partition, member)
    return wanted


def _holders(
    name: str, count: int, members: list[MemberMetadata], eligible: list[int]
) -> dict[int, int]:
    """Who answers for which partition now, of those that the topic still has.

    One that was silent for a while still thinks that it holds what others were given meanwhile: the
    newer map is right (as in KIP-341).
    """
    holder: dict[int, int] = {}
    for i in sorted(eligible, key=lambda i: members[i].epoch):
        holder.update(dict.fromkeys(members[i].active.get(name, ()), i))
    return {partition: i for partition, i in holder.items() if partition < count}
