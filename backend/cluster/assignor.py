"""Kafka's group protocol around `placement`: the user data of members and of the leader.

The coordinator stores the user data of all members in one record, whose size the broker limits.
So a large topology is sent by reference.

kafka-python calls it: `metadata` at every join, `assign` on the leader, `on_assignment` on every
member.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.namesakes import is_refused, one_per_id, warn_of_namesakes
from backend.cluster.placement import Policy, place
from backend.cluster.topic_partitions import (
    MISSING,
    TopicPartitions,
    in_cluster,
    in_topology,
    newest,
)
from model.group.id_in_use import IdInUse
from model.group.member_metadata import MemberMetadata
from model.group.topology_reference import Assigned, TopologyReference, decode_assignment
from model.topology import NO_MEMBER, Member, Topology, TopologyError

log = logging.getLogger(__name__)

_PROTOCOL_VERSION = 0  # of Kafka's consumer protocol: topics or partitions, and user data
# bytes of a member in the group's record next to its subscription and assignment, which have a few
# more: its ids, its host and its time-outs
_MEMBER_BYTES = 160

Partitions = dict[Member, list[tuple[str, list[int]]]]
"""The topic partitions of members."""


class TopologyAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """Gives every member the whole topology, or a reference to it."""

    name = "queryable-topology"

    def __init__(
        self,
        member_metadata: Callable[[], MemberMetadata],
        on_assignment: Callable[[Assigned, int], None],
        policy: Policy,
        topologies: EncodedTopologies,
        max_record_bytes: int,
        polled: Callable[[str], TopicPartitions | None],
        current: Callable[[], Topology],
    ) -> None:
        """`member_metadata()`: this instance's current metadata. `on_assignment`: called with each
        new topology, a reference to it or a refusal, and its generation. `topologies`: keeps the
        topologies that are sent by reference, for members to fetch. `max_record_bytes`: the
        limit for the group's record with topologies. `polled(topic)`: the latest answer of the
        broker to a client other than kafka-python. `current()`: this instance's topology."""
        self._member_metadata = member_metadata
        self._on_assignment = on_assignment
        self._policy = policy
        self._topologies = topologies
        self._max_record_bytes = max_record_bytes
        self._polled = polled
        self._current = current
        self._sent: MemberMetadata | None = None

    def metadata(self, topics: set[str]) -> Any:
        self._sent = self._member_metadata()
        return ConsumerProtocolSubscription(
            _PROTOCOL_VERSION, topics=sorted(topics), user_data=self._sent.encode()
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
        partitions = {topic: self._partitions(cluster, topic).partitions for topic in topics}
        holders = one_per_id(candidates.values())
        warn_of_namesakes(candidates.values(), holders)
        topology = place(
            holders,
            partitions,
            time.time_ns() // 1_000_000,
            self._policy,
        )
        assigned = _kafka_assignments(topology)
        user_data = self._user_data(topology, members, candidates, assigned)
        by_id = {holder.member.id: holder for holder in holders}
        # id of a consumer -> what it gets instead of the topology
        refusals = {
            id_: IdInUse(by_id[c.member.id].member).encode()
            for id_, c in candidates.items()
            if is_refused(c, by_id[c.member.id])
        }
        by_member = {
            id_: assigned.get(c.member, []) for id_, c in candidates.items() if id_ not in refusals
        }
        return {
            member.member_id: ConsumerProtocolAssignment(
                _PROTOCOL_VERSION,
                assigned_partitions=by_member.get(member.member_id, []),
                user_data=refusals.get(member.member_id, user_data),
            )
            for member in members
        }

    def _partitions(self, cluster: Any, topic: str) -> TopicPartitions:
        """The topic's partitions; MISSING if the topic does not exist. If the leader may not
        describe the topic now, its partitions are as they were in the topology: kafka-python would
        not notice when the leader may describe the topic again."""
        in_metadata, polled = in_cluster(cluster, topic), self._polled(topic)
        known = [] if polled is None else [polled]
        if topic in cluster.unauthorized_topics:
            log.warning("topic %s: this instance may not describe it now", topic)
        elif in_metadata.partitions:
            known.append(in_metadata)
        else:
            return MISSING
        placed = in_topology(self._current(), topic)
        known += [partitions for partitions in placed if partitions.topic_hash]
        return newest(known) if known else max(placed, default=MISSING)

    def _user_data(
        self,
        topology: Topology,
        members: Any,
        candidates: dict[str, MemberMetadata],
        assigned: Partitions,
    ) -> bytes:
        """The topology, or a reference to it if the group's record would be too large and all
        members can fetch the topology."""
        encoded = topology.encode()
        copies, rest = len(members), _bytes_of_members(members) + _bytes_of_partitions(assigned)
        record_bytes = rest + copies * len(encoded)
        by_reference = record_bytes > self._max_record_bytes
        if by_reference and (unable := _unable(candidates.values())):
            log.warning(
                "the group's record has about %d bytes, more than %d. The topology is sent to each "
                "instance all the same, because these cannot fetch it (an older version, or "
                "neither a cluster secret nor mutual TLS): %s",
                record_bytes, self._max_record_bytes, ", ".join(unable),
            )  # fmt: skip
            by_reference = False
        log.info(
            "placed %d partitions of %d views on %d instances; the topology has %d bytes and is "
            "sent %s",
            sum(view.partitions for view in topology.views.values()),
            len(topology.views), len(topology.members), len(encoded),
            "by reference" if by_reference else "to each",
        )  # fmt: skip
        if not by_reference:
            return encoded
        assert self._sent is not None
        reference = TopologyReference.for_topology(
            encoded, copies, self._sent.member, topology.epoch.ms
        ).encode()
        record_bytes = rest + copies * len(reference)
        if record_bytes > self._max_record_bytes:
            log.warning(
                "the group's record has about %d bytes, more than %d. If the broker refuses it, "
                "raise max.message.bytes of __consumer_offsets",
                record_bytes, self._max_record_bytes,
            )  # fmt: skip
        self._topologies.add(encoded)
        return reference

    def on_assignment(self, assignment: Any, generation: int) -> None:
        try:
            assigned = decode_assignment(assignment.user_data or b"", generation)
        except TopologyError as e:
            log.error("the assignment of generation %d is invalid: %s", generation, e)
            return
        self._on_assignment(assigned, generation)


def _unable(candidates: Iterable[MemberMetadata]) -> list[str]:
    """The ids of members that cannot fetch a topology, five at most."""
    return sorted(c.member.id for c in candidates if not c.reads_references)[:5]


def _bytes_of_members(members: Any) -> int:
    """The bytes of all members in the group's record, without their assignments."""
    return sum(
        _MEMBER_BYTES
        + sum(2 + len(topic) for topic in member.metadata.topics)
        + len(member.metadata.user_data or b"")
        for member in members
    )


def _bytes_of_partitions(assigned: Partitions) -> int:
    """The bytes of the assigned partitions in the group's record."""
    return sum(
        6 + len(topic) + 4 * len(partitions)
        for by_topic in assigned.values()
        for topic, partitions in by_topic
    )


def _kafka_assignments(topology: Topology) -> Partitions:
    """The topic partitions of each member, for Kafka's own tools. If two views have the same topic,
    a partition goes to the active of the first view."""
    taken: set[tuple[str, int]] = set()
    assigned: defaultdict[Member, defaultdict[str, list[int]]]
    assigned = defaultdict(lambda: defaultdict(list))
    for view in topology.views.values():
        topic = view.description["topic"]
        for partition, index in enumerate(view.active):
            if index == NO_MEMBER or (topic, partition) in taken:
                continue
            taken.add((topic, partition))
            assigned[topology.members[index]][topic].append(partition)
    return {member: sorted(by_topic.items()) for member, by_topic in assigned.items()}
