"""Assigns actives and standbys to partitions: a pure function, run by the group's leader.

The assignment is sticky and balanced, as in KIP-54, and lag-aware, as in KIP-441. Each view's
partitions are balanced to within one per member, and so is the total of all views. Within these
limits a partition stays with its member. If the new active is far behind, it first catches up
(*warming*), and the member that can answer stays active until then. A drained member gets no
partitions, unless all members are drained.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.cluster.replicas.quotas import Quotas
from backend.cluster.replicas.replica_state import ReplicaState
from backend.cluster.replicas.standbys import Standbys
from model.group.member_metadata import MemberMetadata
from model.group_views import Claim, decide
from model.kinds.kind import Kind
from model.kinds.registry import kind_of
from model.topology import NO_MEMBER, Epoch, PlacedView, Topology
from model.view_versions import base_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Policy:
    """The placement settings of a deployment.

    `standby_replicas`: standbys in addition to the active, for kinds of store without a number of
    their own.
    `acceptable_recovery_lag`: how many records an active may be behind the best replica.
    """

    standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000


def place(
    candidates: Iterable[MemberMetadata],
    partitions: Mapping[str, int],
    now_ms: int,
    policy: Policy = Policy(),
) -> Topology:
    """The topology for these members. Each has its own id.

    `partitions`: topic -> partition count; 0 for missing topics. The epoch's generation is 0 here:
    Kafka gives it to every member with the assignment.
    """
    members = sorted(candidates, key=lambda c: c.member.id)
    highest_ms = max((max(c.epoch.ms, c.referenced_ms) for c in members), default=0)
    loads = _Loads([0] * len(members), [0] * len(members))
    views = {}
    claims: dict[Claim, int] = {}
    for name in sorted({view for c in members for view in c.views}):
        hash_ = _prevailing_hash(name, members)
        eligible = [i for i, c in enumerate(members) if c.views.get(name, ("",))[0] == hash_]
        description = members[eligible[0]].views[name][1]
        if (path := description.get("path")) is not None:
            claim = Claim(path, base_of(name))
            times = [members[i].started_at_ms for i in eligible]
            claims[claim] = min(*times, claims.get(claim, times[0]))
        count = partitions.get(description["topic"], 0)
        holder = _holders(name, count, members, eligible)
        active, standbys, warming = _place_view(
            name, kind_of(description["store"]), count, members, eligible, holder, loads, policy
        )
        counts, topic_hash = _partition_counts(name, count, members)
        views[name] = PlacedView(
            description,
            hash_,
            active,
            mispartitioned=_mispartitioned(name, active, members),
            partition_counts=counts,
            standbys=standbys,
            warming=warming,
            moved=tuple(p for p, i in sorted(holder.items()) if active[p] != i),
            topic_hash=topic_hash,
            differs=len(eligible) < len(members),
        )
    return Topology(
        # the epoch must increase even if the clock went back
        epoch=Epoch(max(now_ms, highest_ms + 1), 0),
        members=tuple(c.member for c in members),
        views=views,
        paths=decide(claims),
    )


@dataclass
class _Loads:
    """The number of partitions assigned to each member so far, over all views."""

    active: list[int]
    standby: list[int]


def _prevailing_hash(view: str, members: list[MemberMetadata]) -> str:
    """The definition that most members have; on a tie, the one that already answers."""
    votes = Counter(c.views[view][0] for c in members if view in c.views)
    if len(votes) > 1:
        log.warning("view %s has %d definitions in this group: %s", view, len(votes), votes)
    answering = {c.views[view][0] for c in members if view in c.views and c.active.get(view)}
    return max(votes, key=lambda hash_: (votes[hash_], hash_ in answering, hash_))


def _partition_counts(
    name: str, count: int, members: list[MemberMetadata]
) -> tuple[tuple[int, ...], int]:
    """The numbers of partitions that the view's topic has had, as members know them, and the hash
    of this topic (0: unknown). While the topic is recreated, members know different topics. Then no
    numbers are returned, and the members report again."""
    reports = [c for c in members if c.partition_counts.get(name)]
    hashes = {c.topic_hashes.get(name, 0) for c in reports} - {0}
    if len(hashes) > 1:
        return (), 0
    # a topic that was recreated may have fewer
    counts = {n for c in reports for n in c.partition_counts[name] if n <= count}
    return tuple(sorted(counts)), max(hashes, default=0) if counts else 0


def _mispartitioned(name: str, active: tuple[int, ...], members: list[MemberMetadata]) -> bool:
    """Whether a current or a former member has seen mispartitioned records of the view.

    The new owner of a partition may not have read as far as the old one. So the mark of the last
    topology stays until every partition keeps the active that it had before.
    """
    if any(name in c.mispartitioned for c in members):
        return True
    doubted = any(name in c.topology_mispartitioned for c in members)
    return doubted and any(
        index == NO_MEMBER or partition not in members[index].active.get(name, ())
        for partition, index in enumerate(active)
    )


def _place_view(
    name: str,
    kind: Kind,
    count: int,
    members: list[MemberMetadata],
    eligible: list[int],
    holder: Mapping[int, int],
    loads: _Loads,
    policy: Policy,
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[tuple[int, int], ...]]:
    """Actives, standbys and warming (partition, member) pairs; adds to `loads`."""
    replica_state = ReplicaState(name, count, members, eligible, policy.acceptable_recovery_lag)
    eligible = [i for i in eligible if not members[i].drained] or eligible
    wanted = _wanted(count, eligible, holder, replica_state, loads.active)
    active = list(wanted)
    warming = []
    for partition, index in enumerate(wanted):
        if replica_state.can_take_over(partition, index):
            continue
        answering = replica_state.best(partition, holder.get(partition, NO_MEMBER))
        if answering != index:
            active[partition] = answering
            warming.append((partition, index))
    claimed = {i: {p for p in members[i].standby.get(name, ()) if p < count} for i in eligible}
    placing = Standbys(
        active, dict(warming), eligible, members, replica_state, loads.standby,
        kind.standbys(policy.standby_replicas, len(eligible)), claimed,
    )  # fmt: skip
    return tuple(active), placing.place(), tuple(warming)


def _wanted(
    count: int,
    eligible: list[int],
    holder: Mapping[int, int],
    replica_state: ReplicaState,
    load: list[int],
) -> list[int]:
    """The final actives, once all have caught up: balanced, with as few moves as possible."""
    holds: dict[int, set[int]] = {i: set() for i in eligible}
    for partition, i in holder.items():
        if i in holds:  # a drained member gives its partitions up
            holds[i].add(partition)
    # on a tie, the member with more partitions to keep gets one more
    quotas = Quotas(count, eligible, load, prefer=lambda i: -len(holds[i]))
    wanted = [NO_MEMBER] * count

    def give(partition: int, member: int) -> None:
        wanted[partition] = member
        quotas.take(member)

    lacking = {i for i in eligible if len(holds[i]) < quotas.room[i]}
    for i in eligible:
        # first give up partitions that another member can take over without a snapshot
        held = sorted(
            holds[i],
            key=lambda p: (
                not lacking.isdisjoint(replica_state.ready(p)),
                not lacking.isdisjoint(replica_state.positions(p)),
                p,
            ),
        )  # fmt: skip
        for partition in held[: quotas.room[i]]:
            give(partition, i)
    free = [p for p in range(count) if wanted[p] == NO_MEMBER]
    # partitions with the fewest candidates first
    for partition in sorted(
        free, key=lambda p: (not replica_state.ready(p), len(replica_state.ready(p)), p)
    ):
        having = [
            i
            for i in replica_state.ready(partition) or replica_state.positions(partition)
            if quotas.room.get(i, 0) > 0
        ]
        if having:
            key = {i: (replica_state.position(partition, i), quotas.room[i], -i) for i in having}
            give(partition, max(having, key=key.__getitem__))
    for partition in free:
        if wanted[partition] == NO_MEMBER:
            having = [i for i in replica_state.positions(partition) if quotas.room.get(i, 0) > 0]
            member = (
                max(
                    having, key=lambda i: (replica_state.position(partition, i), quotas.room[i], -i)
                )
                if having
                else quotas.emptiest()
            )
            assert member is not None  # the quotas add up to `count`
            give(partition, member)
    return wanted


def _holders(
    name: str, count: int, members: list[MemberMetadata], eligible: list[int]
) -> dict[int, int]:
    """Partition -> the member that is active for it now, for partitions that still exist.

    After a pause, a member may still claim partitions that other members have got in the meantime.
    Then the claim from the newer topology wins (as in KIP-341).
    """
    holder: dict[int, int] = {}
    for i in sorted(eligible, key=lambda i: members[i].epoch):
        holder.update(dict.fromkeys(members[i].active.get(name, ()), i))
    return {partition: i for partition, i in holder.items() if partition < count}
