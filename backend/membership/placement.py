"""Which instance is active for which partition: a pure function, run by the group's leader.

Sticky and balanced, as KIP-54 describes sticky assignment: every view's partitions are spread
within one, the total of all views too, and within that a partition stays with whom it is, or goes
to whoever holds most of it already.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from backend.core.topology import NOBODY, Candidate, Epoch, PlacedView, Topology

log = logging.getLogger(__name__)


def place(candidates: Iterable[Candidate], partitions: Mapping[str, int], now_ms: int) -> Topology:
    """The map for these members.

    `partitions`: topic -> its partition count as the broker says; a topic that is not there has
    none. The epoch's generation is 0 here: Kafka tells it to every member with the assignment.
    """
    members = _one_per_id(candidates)
    highest = max((c.epoch for c in members), default=Epoch(0, 0))
    load = [0] * len(members)
    views = {}
    for name in sorted({view for c in members for view in c.views}):
        hash_ = _prevailing_hash(name, members)
        eligible = [i for i, c in enumerate(members) if c.views.get(name, ("",))[0] == hash_]
        description = members[eligible[0]].views[name][1]
        count = partitions.get(description["topic"], 0)
        active = _place_view(name, count, members, eligible, load)
        built = [c.built[name] for c in members if c.built.get(name)]
        views[name] = PlacedView(
            description,
            hash_,
            active,
            mis_partitioned=_mis_partitioned(name, active, members),
            built_partitions=min([count, *built]),
            moved=tuple(
                partition
                for i, held in sorted(_holders(name, count, members, eligible).items())
                for partition in sorted(held)
                if active[partition] != i
            ),
        )
    return Topology(
        # a clock that went back must not make an epoch that is below one already seen
        epoch=Epoch(max(now_ms, highest.ms + 1), 0),
        members=tuple(c.member for c in members),
        views=views,
    )


def _one_per_id(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Of members with one id the one that started last: the other is dead, or a mistake."""
    newest: dict[str, Candidate] = {}
    for candidate in candidates:
        other = newest.get(candidate.member.id)
        if other is None or candidate.started_at > other.started_at:
            newest[candidate.member.id] = candidate
    return [newest[id_] for id_ in sorted(newest)]


def _prevailing_hash(view: str, members: list[Candidate]) -> str:
    """The definition that most members have; of equals the one that is answering already."""
    votes = Counter(c.views[view][0] for c in members if view in c.views)
    if len(votes) > 1:
        log.warning("view %s is defined in %d ways in this group: %s", view, len(votes), votes)
    answering = {c.views[view][0] for c in members if view in c.views and c.active.get(view)}
    return max(votes, key=lambda hash_: (votes[hash_], hash_ in answering, hash_))


def _mis_partitioned(name: str, active: tuple[int, ...], members: list[Candidate]) -> bool:
    """Whether a member saw a misplaced record, or one saw it that is gone.

    Whoever gets a partition now may not have read as far as that one had: until all partitions are
    where they were, what the map said before stays true.
    """
    if any(name in c.mis_partitioned for c in members):
        return True
    moved = any(
        index == NOBODY or partition not in members[index].active.get(name, ())
        for partition, index in enumerate(active)
    )
    return moved and any(name in c.doubtful for c in members)


def _place_view(
    name: str, count: int, members: list[Candidate], eligible: list[int], load: list[int]
) -> tuple[int, ...]:
    """The active member of each partition; adds to `load`, the partitions of each member so far."""
    holds = _holders(name, count, members, eligible)
    base, extra = divmod(count, len(eligible))
    # whoever has least so far gets one more; of equals, whoever has more to keep
    by_load = sorted(eligible, key=lambda i: (load[i], -len(holds[i]), members[i].member.id))
    room = {i: base + (rank < extra) for rank, i in enumerate(by_load)}
    active = [NOBODY] * count

    def give(partition: int, member: int) -> None:
        active[partition] = member
        room[member] -= 1
        load[member] += 1

    for partition in range(count):
        keeper = next((i for i in eligible if partition in holds[i] and room[i]), None)
        if keeper is not None:
            give(partition, keeper)
    for partition in range(count):
        if active[partition] == NOBODY:
            position = {i: members[i].positions.get(name, {}).get(partition, -1) for i in eligible}
            free = [i for i in eligible if room[i]]
            give(partition, max(free, key=lambda i: (position[i], room[i], -i)))
    return tuple(active)


def _holders(
    name: str, count: int, members: list[Candidate], eligible: list[int]
) -> dict[int, set[int]]:
    """Who answers for which partitions now, of those that the topic still has.

    One that was silent for a while still thinks that it holds what others were given meanwhile: the
    newer map is right (as in KIP-341).
    """
    holder: dict[int, int] = {}
    for i in sorted(eligible, key=lambda i: members[i].epoch):
        holder.update(dict.fromkeys(members[i].active.get(name, ()), i))
    return {i: {p for p, of in holder.items() if of == i and p < count} for i in eligible}
