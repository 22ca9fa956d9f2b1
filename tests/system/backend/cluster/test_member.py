"""What a member of the group asks its instance for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka import KafkaConsumer

from backend.cluster import member as member_module
from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.member import GroupMember, subscribe
from backend.cluster.placement import Policy
from backend.cluster.topology_fetcher import TopologyFetcher
from local.kafka.broker import Broker
from local.waiting import wait_until
from model.group.member_metadata import MemberMetadata
from model.topology import Topology
from model.views import View
from tests.support.in_process.examples import ORDERS, candidate, view
from tests.support.plugins.fixtures import MakeTopic


class Instance:
    """Counts how often its metadata are taken: each time it believes that the leader has them."""

    def __init__(self, id_: str = "b1", views: Iterable[View] = (ORDERS,)) -> None:
        self._as_member = candidate(id_, views)
        self.reports = 0
        self.topologies: list[Topology] = []
        self.encoded = EncodedTopologies()
        self.now = 100.0  # s

    def metadata(self) -> MemberMetadata:
        self.reports += 1
        return self._as_member


def member_of(
    instance: Instance,
    topic: str = "orders",
    group: str = "group",
    client_settings: Mapping[str, Any] = MappingProxyType({}),
    session_timeout_ms: int = 2_000,
) -> GroupMember:
    topologies = instance.encoded
    return GroupMember(
        frozenset([topic]), group, client_settings, session_timeout_ms, 500,
        instance.metadata, instance.topologies.append, Policy(),
        topologies, TopologyFetcher("b1", topologies, None, clock=lambda: instance.now), 900_000,
        lambda topic: None,
    )  # fmt: skip


def joined(instance: Instance) -> GroupMember:
    """After a join."""
    member = member_of(instance)
    member._metadata()
    return member


def test_a_consumer_has_the_metadata_of_its_topics_before_it_joins(
    broker: Broker, make_topic: MakeTopic
) -> None:
    """Else a leader would consider them as changed after the first join, and join again."""
    first, second = make_topic(3), make_topic(1)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="not-joined")
    try:
        subscribe(consumer, frozenset([first, second]))
        assert consumer._coordinator._metadata_snapshot == {first: {0, 1, 2}, second: {0}}
    finally:
        consumer.close(autocommit=False)


def test_the_first_member_soon_learns_of_the_second(
    broker: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: it learned of it with its next usual heartbeat, and read all partitions until
    then. It does not wait for its next poll."""
    monkeypatch.setattr(member_module, "_IDLE_POLL", 60.0)
    orders = view(make_topic(2))
    first, second = Instance("b1", [orders]), Instance("b2", [orders])
    servers = {"bootstrap_servers": broker.bootstrap_servers}
    members = [
        member_of(instance, orders.topic, f"{orders.topic}-group", servers, 250_000)
        for instance in (first, second)
    ]
    # longer than the waits below, however much they are stretched
    assert members[0]._settings["heartbeat_interval_ms"] == 50_000
    with ExitStack() as stack:
        for instance, member in zip((first, second), members, strict=True):
            member.start()
            stack.callback(member.stop, 5)
            wait_until(lambda: instance.topologies, 8, "a topology")  # noqa: B023
        wait_until(lambda: len(first.topologies[-1].members) == 2, 8, "the second member")


def test_a_leader_learns_of_new_partitions_before_its_next_poll(
    broker: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "_IDLE_POLL", 60.0)
    orders = view(make_topic(2))
    instance = Instance("b1", [orders])
    servers = {"bootstrap_servers": broker.bootstrap_servers}
    member = member_of(instance, orders.topic, f"{orders.topic}-group", servers, 60_000)
    waits: list[float] = []
    wait = member._wake.wait

    def waiting(seconds: float) -> bool:
        waits.append(seconds)
        return wait(seconds)

    monkeypatch.setattr(member._wake, "wait", waiting)
    with ExitStack() as stack:
        member.start()
        stack.callback(member.stop, 5)
        wait_until(lambda: instance.topologies and waits, 8, "the end of the join")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        [future] = admin.create_partitions([NewPartitions(orders.topic, 4)]).values()
        future.result(10)
        wait_until(
            lambda: instance.topologies[-1].views[orders.name].partitions == 4,
            8,
            "the new partitions",
        )
