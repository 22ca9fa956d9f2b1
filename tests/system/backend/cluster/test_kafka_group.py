"""The group with kafka-python and a real broker."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka import KafkaConsumer
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.selector import NetworkSelector

from backend.cluster.assignor import TopologyAssignor
from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.kafka_group import GroupSettings, KafkaGroup, subscribe
from backend.cluster.member import IDLE_POLL, GroupMember
from backend.cluster.placement import Policy
from backend.cluster.topology_fetcher import TopologyFetcher
from local.kafka.broker import Broker
from local.waiting import wait_until
from model.topology import Topology
from model.views import View
from tests.support.in_process.examples import candidate, view
from tests.support.plugins.fixtures import MakeTopic

LONG = 60.0  # s; longer than the waits below, however much they are stretched


def settings_of(
    topic: str,
    client_settings: Mapping[str, Any] = MappingProxyType({}),
    session_timeout_ms: int = 2_000,
) -> GroupSettings:
    return GroupSettings(
        frozenset([topic]), f"{topic}-group", client_settings, session_timeout_ms, 500
    )


class Consumer:
    """Takes part in the group of this view, and polls only if the test does."""

    def __init__(self, broker: Broker, of: View) -> None:
        self.topologies: list[Any] = []
        self.may_have_to_join = threading.Event()
        assignor = TopologyAssignor(
            lambda: candidate("b1", [of]),
            lambda assigned, generation: self.topologies.append(assigned),
            Policy(),
            EncodedTopologies(),
            900_000,
            lambda topic: None,
            Topology,
        )
        settings = settings_of(
            of.topic,
            {"bootstrap_servers": broker.bootstrap_servers},
            250_000,
        )
        self.group: KafkaGroup = settings.open(assignor, self.may_have_to_join.set)

    def join(self) -> None:
        def has_joined() -> bool:
            self.group.poll()
            return not self.group.must_join

        wait_until(has_joined, 8, "the end of the join", 0)

    def must_join(self) -> bool:
        """Whether it must, once it has been told that it may have to."""
        self.may_have_to_join.wait(1)
        self.may_have_to_join.clear()
        return self.group.must_join


@contextmanager
def opened(broker: Broker, of: View) -> Iterator[Consumer]:
    """Its heartbeats have an interval of 50 s."""
    consumer = Consumer(broker, of)
    try:
        yield consumer
    finally:
        consumer.group.close()


def test_a_member_that_polls_now_and_then_stays_in_its_group() -> None:
    assert settings_of("orders").max_poll_interval_ms >= 5_000 * IDLE_POLL


def test_a_consumer_has_the_metadata_of_its_topics_before_it_joins(
    broker: Broker, make_topic: MakeTopic
) -> None:
    """Else a leader would place no partitions, or consider them as changed after the first join,
    and join again. This needs luck, so the test asks kafka-python's coordinator."""
    first, second = make_topic(3), make_topic(1)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="not-joined")
    try:
        subscribe(consumer, frozenset([first, second]))
        assert consumer._coordinator._metadata_snapshot == {first: {0, 1, 2}, second: {0}}
    finally:
        consumer.close(autocommit=False)


def test_a_rejoin_can_be_requested(broker: Broker, make_topic: MakeTopic) -> None:
    with opened(broker, view(make_topic())) as joined:
        joined.join()
        joined.group.poll()
        assert len(joined.topologies) == 1
        joined.may_have_to_join.clear()
        joined.group.request_rejoin()
        assert joined.may_have_to_join.is_set()
        joined.join()
        assert len(joined.topologies) == 2


def test_a_join_of_several_polls_is_continued(broker: Broker, make_topic: MakeTopic) -> None:
    """The broker waits for the other consumer, which must join again."""
    orders = view(make_topic())
    with opened(broker, orders) as first:
        first.join()
        with opened(broker, orders) as second:
            second.group.poll()
            assert second.group.is_joining
            first.group.request_rejoin()
            other = threading.Thread(target=first.join)
            other.start()
            second.join()
            other.join()
            assert not second.group.is_joining
            assert len(second.topologies) == 1


def test_a_heartbeat_says_that_another_member_joins(broker: Broker, make_topic: MakeTopic) -> None:
    """It is told, and the heartbeats have the interval that was set last."""
    orders = view(make_topic())
    with opened(broker, orders) as first:
        first.group.set_heartbeat_interval(100)
        first.join()
        with opened(broker, orders) as second:
            second.group.poll()
            wait_until(first.must_join, 8, "news of the other member")


def test_a_leader_learns_of_new_partitions_before_its_next_poll(
    broker: Broker, make_topic: MakeTopic
) -> None:
    orders = view(make_topic(2))
    with opened(broker, orders) as joined:
        joined.join()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        [future] = admin.create_partitions([NewPartitions(orders.topic, 4)]).values()
        future.result(10)
        wait_until(joined.must_join, 8, "news of the new partitions")
        joined.join()
        assert joined.topologies[-1].views[orders.name].partitions == 4


def test_the_first_member_soon_learns_of_the_second(broker: Broker, make_topic: MakeTopic) -> None:
    """Regression: it learned of it with its next usual heartbeat, and read all partitions until
    then. It does not wait for its next poll."""
    orders = view(make_topic(2))
    settings = settings_of(orders.topic, {"bootstrap_servers": broker.bootstrap_servers}, 250_000)
    assert settings.heartbeat_ms == 50_000

    failures: list[str] = []

    def member_of(id_: str, topologies: list[Topology]) -> GroupMember:
        encoded = EncodedTopologies()
        return GroupMember(
            settings.open, settings.heartbeat_ms, lambda: candidate(id_, [orders]),
            topologies.append, Policy(), encoded, TopologyFetcher(id_, encoded, None),
            900_000, lambda topic: None, failures.append, 5, idle_poll=LONG,
        )  # fmt: skip

    of_first: list[Topology] = []
    of_second: list[Topology] = []
    with ExitStack() as stack:
        for id_, topologies in (("b1", of_first), ("b2", of_second)):
            member = member_of(id_, topologies)
            member.start()
            stack.callback(member.stop, 5)
            wait_until(lambda: topologies, 8, "a topology")  # noqa: B023
        wait_until(lambda: len(of_first[-1].members) == 2, 8, "the second member")


def test_a_client_that_is_closed_while_it_connects_fails_no_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kafka-python (3.0) leaves the socket to the interpreter. Its warning, which pyproject.toml
    ignores, made a test fail by chance: the one that ran, or the next one."""
    selector = NetworkSelector()
    connect = KafkaNetSocket.connect_ex

    def not_noticed(self: KafkaNetSocket, sock: socket.socket, address: Any) -> int:
        connect(self, sock, address)
        return errno.EINPROGRESS

    monkeypatch.setattr(KafkaNetSocket, "connect_ex", not_noticed)
    with socket.create_server(("127.0.0.1", 0)) as server:
        selector.call_soon(lambda: create_connection(selector, *server.getsockname()))
        selector.poll(timeout_ms=0)
        selector.close()
