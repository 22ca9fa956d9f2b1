"""What the group's leader gives each member."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from backend.cluster.assignor import TopologyAssignor
from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.placement import Policy
from backend.cluster.topic_partitions import TopicPartitions
from model.group.id_in_use import IdInUse
from model.group.member_metadata import MemberMetadata
from model.group.topology_reference import TopologyReference, decode_assignment
from model.records import hash_of_topic
from model.topology import Epoch, PlacedView, Topology
from tests.support.in_process.examples import ORDERS, candidate, view


def assign(
    *candidates: Any,
    partitions: int,
    max_record_bytes: int = 900_000,
    topologies: EncodedTopologies | None = None,
    topic_id: UUID | None = None,
    polled: TopicPartitions | None = None,
    current: Topology = Topology(),  # noqa: B008
    unauthorized_topics: Collection[str] = (),
) -> dict[str, Any]:
    """`partitions`, `topic_id` and `unauthorized_topics`: in kafka-python's metadata."""
    assignor = TopologyAssignor(
        lambda: candidate("b1"),
        lambda assigned, generation: None,
        Policy(),
        topologies or EncodedTopologies(),
        max_record_bytes,
        lambda topic: polled,
        lambda: current,
    )
    assignor.metadata({"orders"})
    members = [
        SimpleNamespace(
            member_id=f"member-{number}",
            metadata=SimpleNamespace(topics=["orders"], user_data=each),
        )
        for number, each in enumerate(candidates)
    ]
    cluster = SimpleNamespace(
        partitions_for_topic=lambda topic: set(range(partitions)),
        topic_id=lambda topic: topic_id,
        unauthorized_topics=unauthorized_topics,
    )
    return assignor.assign(cluster, members)


def test_of_two_instances_with_one_id_one_is_refused_by_name() -> None:
    """Regression: both believed the topology, if both advertised 127.0.0.1 on their machines."""
    first = candidate("b1", epoch=Epoch(5, 1), network="n1")
    second, other = candidate("b1", started_at=9, network="n2"), candidate("b2", network="n3")
    found = assign(first.encode(), second.encode(), other.encode(), partitions=4)
    assert decode_assignment(found["member-1"].user_data, 1) == IdInUse(first.member)
    assert found["member-1"].assigned_partitions == []
    for name in ("member-0", "member-2"):
        topology = decode_assignment(found[name].user_data, 1)
        assert isinstance(topology, Topology)
        assert topology.members == (first.member, other.member)
        assert found[name].assigned_partitions


def test_each_topic_partition_is_assigned_once_for_kafkas_tools() -> None:
    """Also if two views have the same topic, whose partitions other members may have."""
    second = view("orders-again", topic=ORDERS.topic)
    members = [candidate(f"b{n}", views=[ORDERS, second]).encode() for n in (1, 2, 3)]
    found = assign(*members, partitions=7)
    assert len(found) == 3
    topology = Topology.decode(found["member-0"].user_data, 1)
    active = topology.views["orders"].active
    for number in range(3):
        given = found[f"member-{number}"]
        assert given.user_data == found["member-0"].user_data
        own = [p for p, index in enumerate(active) if index == number]
        assert [list(each) for each in given.assigned_partitions] == [[ORDERS.topic, own]]
    assert len(active) == 7


def test_a_member_with_malformed_metadata_gets_no_partitions() -> None:
    found = assign(candidate("b1").encode(), b"nonsense", None, partitions=2)
    assert [list(each) for each in found["member-0"].assigned_partitions] != []
    for other in ("member-1", "member-2"):
        assert found[other].assigned_partitions == []
        assert Topology.decode(found[other].user_data, 1).members[0].id == "b1"


def size_of_record(members: list[bytes], found: dict[str, Any]) -> int:
    """What the coordinator stores for the members, with ids and host names as they are in use."""
    of_one = len("queryable-member-") + 36 + len("queryable-member") + len("/10.100.100.100") + 20
    return sum(of_one + 16 + len(member) for member in members) + sum(
        len(each.encode()) for each in found.values()
    )


def test_a_topology_that_does_not_fit_is_sent_by_reference() -> None:
    members = [candidate(f"b{n}").encode() for n in range(1, 30)]
    given = assign(*members, partitions=100)
    size = size_of_record(members, given)
    topology = decode_assignment(given["member-0"].user_data, 1)
    assert isinstance(topology, Topology)

    topologies = EncodedTopologies()
    found = assign(*members, partitions=100, max_record_bytes=size, topologies=topologies)
    reference = decode_assignment(found["member-0"].user_data, 1)
    assert isinstance(reference, TopologyReference), "the size is not underestimated"
    assert (reference.leader, reference.instances) == (candidate("b1").member, 29)
    assert {each.user_data for each in found.values()} == {found["member-0"].user_data}
    encoded = topologies.get(reference.digest)
    assert encoded is not None
    assert reference.refers_to(encoded)
    assert Topology.decode(encoded, 1).views == topology.views
    assert {id_: each.assigned_partitions for id_, each in found.items()} == {
        id_: each.assigned_partitions for id_, each in given.items()
    }
    assert size_of_record(members, found) < size

    roomy = assign(*members, partitions=100, max_record_bytes=int(1.3 * size))
    assert isinstance(decode_assignment(roomy["member-0"].user_data, 1), Topology)


def test_a_topology_that_a_member_cannot_fetch_is_sent_to_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = replace(candidate("b2"), reads_references=False)
    members = [candidate("b1").encode(), old.encode()]
    assert not MemberMetadata.decode(members[1]).reads_references
    found = assign(*members, partitions=2, max_record_bytes=500)
    for each in found.values():
        assert isinstance(decode_assignment(each.user_data, 1), Topology)
    assert "more than 500" in caplog.text
    assert "mutual TLS): b2" in caplog.text


def test_an_epoch_that_only_a_reference_had_is_not_used_again() -> None:
    """The leader has gone before anyone had its topology, and the next one's clock is behind."""
    ahead = time.time_ns() // 1_000_000 + 3_600_000
    sent = replace(candidate("b2"), referenced_ms=ahead)
    given = assign(candidate("b1").encode(), sent.encode(), partitions=2)
    topology = decode_assignment(given["member-0"].user_data, 1)
    assert isinstance(topology, Topology)
    assert topology.epoch.ms == ahead + 1


def test_a_record_that_the_broker_may_refuse_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assign(candidate("b1").encode(), partitions=2, max_record_bytes=1)
    assert "raise max.message.bytes of __consumer_offsets" in caplog.text


OLD, NEW = UUID("127e7f45-de6c-4dfc-af5a-3d912d5f75db"), UUID(int=7)
OLD_HASH = hash_of_topic("En5/Rd5sTfyvWj2RLV912w")  # as librdkafka writes it
NEW_HASH = hash_of_topic("new")


def placed(partitions: int, topic_id: UUID | None = OLD, **more: Any) -> PlacedView:
    """By a leader whose metadata have this number of partitions."""
    found = assign(candidate("b1").encode(), partitions=partitions, topic_id=topic_id, **more)
    return Topology.decode(found["member-0"].user_data, 1).views["orders"]


def with_five() -> Topology:
    """A topology with five partitions, of instances that had stores of the old topic."""
    return Topology(Epoch(5, 1), (), {"orders": replace(placed(5), topic_hash=OLD_HASH)})


def test_a_leader_with_older_metadata_keeps_new_partitions() -> None:
    """Regression: the answers were those of before, and keys in the new partitions were 404."""
    current = with_five()
    assert placed(3, current=current).partitions == 5
    assert placed(3, current=current, polled=TopicPartitions(OLD_HASH, 3)).partitions == 5
    assert placed(3, polled=TopicPartitions(OLD_HASH, 5)).partitions == 5
    assert placed(5, polled=TopicPartitions(OLD_HASH, 3)).partitions == 5
    # an older broker sends kafka-python no ids
    assert placed(3, None, polled=TopicPartitions(OLD_HASH, 3), current=current).partitions == 5


def test_a_topic_that_may_not_be_described_now_keeps_its_partitions() -> None:
    """Regression: it lost all of them, for good."""
    hidden = partial(placed, 0, None, unauthorized_topics={ORDERS.topic})
    assert hidden(current=with_five()).partitions == 5
    assert hidden(polled=TopicPartitions(OLD_HASH, 4)).partitions == 4
    assert hidden(current=with_five(), polled=TopicPartitions(OLD_HASH, 4)).partitions == 5
    # the first topology of a group is made before there is a store, which knows the topic's id
    before_stores = Topology(Epoch(5, 1), (), {"orders": placed(5, None)})
    assert before_stores.views["orders"].topic_hash == 0
    assert hidden(current=before_stores).partitions == 5
    assert hidden().partitions == 0, "no source has a number"


def test_a_topic_that_was_created_again_may_have_fewer_partitions() -> None:
    current = with_five()
    assert placed(3, NEW, current=current).partitions == 3
    assert placed(3, NEW, current=current, polled=TopicPartitions(NEW_HASH, 4)).partitions == 4
    assert placed(5, polled=TopicPartitions(NEW_HASH, 3), current=current).partitions == 3
    assert placed(0, None, polled=TopicPartitions(OLD_HASH, 5), current=current).partitions == 0


def test_a_topic_may_have_got_partitions_for_one_of_its_views_first() -> None:
    """They have one topic, so they have the same partitions."""
    second = view("orders-again", topic=ORDERS.topic)
    five = with_five().views["orders"]
    current = Topology(
        Epoch(5, 1), (), {"orders": five, second.name: replace(five, active=five.active[:3])}
    )
    found = assign(
        candidate("b1", views=[ORDERS, second]).encode(),
        partitions=3, topic_id=OLD, current=current,
    )  # fmt: skip
    views = Topology.decode(found["member-0"].user_data, 1).views
    assert [each.partitions for each in views.values()] == [5, 5]
