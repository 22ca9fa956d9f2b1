"""Kafka's group protocol around `placement`: the user data of members and of the leader.

kafka-python calls it: `metadata` at every join, `assign` on the leader, `on_assignment` on every
member.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from backend.cluster.placement import Policy, place
from model.topology import NOBODY, Member, MemberMetadata, Topology, TopologyError

log = logging.getLogger(__name__)

_PROTOCOL_VERSION = 0  # of Kafka's consumer protocol: topics or partitions, and user data


class TopologyAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """Gives every member the whole topology."""

    name = "queryable-topology"

    def __init__(
        self,
        member_metadata: Callable[[], MemberMetadata],
        on_topology: Callable[[Topology], None],
        policy: Policy,
    ) -> None:
        """`member_metadata()`: this instance's current metadata. `on_topology`: called with each
        new topology."""
        self._member_metadata = member_metadata
        self._on_topology = on_topology
        self._policy = policy

    def metadata(self, topics: set[str]) -> Any:
        return ConsumerProtocolSubscription(
            _PROTOCOL_VERSION,
            topics=sorted(topics),
            user_data=self._member_metadata().encode(),
        )

    def assign(self, cluster: Any, members: Any) -> dict[str, Any]:
        candidates: dict[str, MemberMetadata] = {}
        for member in members:
            try:
                candidates[member.member_id] = MemberMetadata.decode(
                    member.metadata.user_data or b""
                )
            except TopologyError as e:
                log.error("group member %s gets no partitions: %s", member.member_id, e)
        topics = {d["topic"] for c in candidates.values() for _, d in c.views.values()}
        partitions = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        topology = place(
            candidates.values(),
            partitions,
            time.time_ns() // 1_000_000,
            self._policy,
        )
        user_data = topology.encode(copies=len(members))
        log.info(
            "placed %d partitions of %d views on %d instances; the topology has %d bytes",
            sum(view.partitions for view in topology.views.values()),
            len(topology.views), len(topology.members), len(user_data),
        )  # fmt: skip
        assigned = _kafka_assignments(topology)
        of_member = {id_: assigned.get(each.member, []) for id_, each in candidates.items()}
        return {
            member.member_id: ConsumerProtocolAssignment(
                _PROTOCOL_VERSION,
                assigned_partitions=of_member.get(member.member_id, []),
                user_data=user_data,
            )
            for member in members
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        try:
            topology = Topology.decode(assignment.user_data or b"", generation)
        except TopologyError as e:
            log.error("the assignment of generation %d is invalid: %s", generation, e)
            return
        self._on_topology(topology)


def _kafka_assignments(topology: Topology) -> dict[Member, list[tuple[str, list[int]]]]:
    """Topic partitions of each member for Kafka's own tools. A partition of two views goes to the
    first."""
    taken: set[tuple[str, int]] = set()
    assigned: defaultdict[Member, defaultdict[str, list[int]]]
    assigned = defaultdict(lambda: defaultdict(list))
    for view in topology.views.values():
        topic = view.description["topic"]
        for partition, index in enumerate(view.active):
            if index == NOBODY or (topic, partition) in taken:
                continue
            taken.add((topic, partition))
            assigned[topology.members[index]][topic].append(partition)
    return {member: sorted(by_topic.items()) for member, by_topic in assigned.items()}
