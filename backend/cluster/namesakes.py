"""Decides which of several members of the group with the same id is the instance with this id.

An instance that has crashed and started again may be in the group twice. It has the same address,
and its port was free, so the member that started later is the instance, and the other is dead.

Members with different addresses, or with the same address on different machines, are different
instances. One of them has the wrong id. The one that is already in the group keeps the id: it has
seen the newer topology. Of two new ones, the one that started first keeps it. The leader refuses
the other one (`IdInUse`). A member that has crashed may be in the group for its session time-out,
so an instance that is refused asks again after this time.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from model.group.member_metadata import MemberMetadata
from model.topology import Member

log = logging.getLogger(__name__)


def one_per_id(candidates: Iterable[MemberMetadata]) -> list[MemberMetadata]:
    """For each id, the member that keeps it. Ordered by id."""
    by_id: defaultdict[str, list[MemberMetadata]] = defaultdict(list)
    for candidate in candidates:
        by_id[candidate.member.id].append(candidate)
    return [_holder(by_id[id_]) for id_ in sorted(by_id)]


def is_refused(candidate: MemberMetadata, holder: MemberMetadata) -> bool:
    """Whether the member is refused because another instance keeps its id. Members of older
    versions do not understand a refusal, but notice that they are not in the topology."""
    return bool(candidate.network) and not _is_same_instance(candidate, holder)


def warn_of_namesakes(
    candidates: Iterable[MemberMetadata], holders: Iterable[MemberMetadata]
) -> None:
    """Log which instances have the id of another one, and which have the address of another one."""
    by_id = {holder.member.id: holder for holder in holders}
    for candidate in candidates:
        holder = by_id[candidate.member.id]
        if not _is_same_instance(candidate, holder):
            log.error(
                "the instance at %s has the id %s, which the instance at %s has, too: the first "
                "one gets no partitions. Give each instance its own id (QUERYABLE_INSTANCE_ID)",
                address_of(candidate.member), candidate.member.id, address_of(holder.member),
            )  # fmt: skip
    by_address: dict[str, MemberMetadata] = {}
    for holder in by_id.values():
        other = by_address.setdefault(address_of(holder.member), holder)
        if other is not holder:
            log.error(
                "instances %s and %s both have the address %s, so others reach only one of them. "
                "Give each its own (QUERYABLE_ADVERTISED)",
                other.member.id, holder.member.id, address_of(holder.member),
            )  # fmt: skip


def address_of(member: Member) -> str:
    return f"{member.host}:{member.port}"


def _holder(candidates: list[MemberMetadata]) -> MemberMetadata:
    """The member that keeps the id of all these candidates."""
    living: list[MemberMetadata] = []
    for candidate in sorted(candidates, key=lambda c: c.started_at_ms, reverse=True):
        if not any(_is_same_instance(candidate, later) for later in living):
            living.append(candidate)
    return max(living, key=lambda c: (c.epoch, -c.started_at_ms, address_of(c.member)))


def _is_same_instance(one: MemberMetadata, other: MemberMetadata) -> bool:
    """Whether both are the same instance, before and after a restart. Members of older versions do
    not say in which network they are."""
    is_one_network = one.network == other.network or "" in (one.network, other.network)
    return is_one_network and address_of(one.member) == address_of(other.member)
