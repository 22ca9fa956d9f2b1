"""What a member of the group asks its instance for."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from kafka.coordinator.heartbeat import Heartbeat
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.selector import NetworkSelector

from backend.cluster import member as member_module
from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.member import GroupMember
from backend.cluster.placement import Policy, place
from backend.cluster.topology_fetcher import GIVE_UP_AFTER, TopologyFetcher
from model.group.member_metadata import MemberMetadata
from model.group.topology_reference import TopologyReference
from model.topology import Epoch, Topology
from model.views import View
from tests.support.in_process.examples import ORDERS, candidate

_REAL_IDLE_POLL = member_module._IDLE_POLL  # s


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


def test_a_topology_takes_no_metadata_that_the_leader_does_not_get() -> None:
    """Else a partition that becomes answerable between a join and its topology counts as reported,
    and stays warming for ten seconds."""
    instance = Instance()
    member = joined(instance)
    topology = place([candidate("b1")], {"orders": 1}, 5)
    member._topology(topology)
    assert instance.topologies == [topology]
    assert instance.reports == 1


def test_one_that_is_not_in_the_topology_says_so(caplog: pytest.LogCaptureFixture) -> None:
    member = joined(Instance())
    with caplog.at_level(logging.ERROR):
        member._topology(place([candidate("b2")], {"orders": 1}, 5))
    assert "instance b1 (127.0.0.1:8081) is not in the topology" in caplog.text


class Coordinator:
    """Of a member that has joined, until a heartbeat says that the group rebalances."""

    def __init__(self) -> None:
        self.heartbeat = Heartbeat(heartbeat_interval_ms=1_200)
        self.rejoining = False
        self.rebalances = threading.Event()

    def need_rejoin(self) -> bool:
        return self.rebalances.is_set()

    def stable(self) -> bool:
        return True


class SlowJoin:
    """A consumer whose joins end with the third poll, as kafka-python's do if the group takes
    longer than two polls."""

    def __init__(self, member: GroupMember) -> None:
        self.heartbeat = Heartbeat()
        self._member = member
        self._coordinator = self
        self._is_needed = False
        self._polls_left = 0

    @property
    def rejoining(self) -> bool:
        return self._polls_left > 0

    def poll(self, timeout_ms: int) -> None:
        if self.rejoining:
            self._polls_left -= 1
            self._is_needed = self._is_needed and self.rejoining
        elif self._is_needed:
            self._member._metadata()
            self._polls_left = 2

    def poll_heartbeat(self) -> None:
        pass

    def request_rejoin(self) -> None:
        self._is_needed = True

    def need_rejoin(self) -> bool:
        return self._is_needed

    def stable(self) -> bool:
        return True


@pytest.mark.parametrize("polls", range(6))
def test_what_changes_during_a_join_is_sent_with_another_one(polls: int) -> None:
    """Regression: an instance stayed drained if it was undrained while its group rebalanced."""
    instance = Instance()
    member = joined(instance)
    consumer: Any = SlowJoin(member)
    member.rejoin()
    for _ in range(polls):
        member._poll(consumer)
    sent = instance.reports
    member.rejoin()
    for _ in range(20):
        member._poll(consumer)
    assert instance.reports == sent + 1
    assert not member._rejoin.is_set()


@pytest.mark.parametrize("reason", ["rejoin", "rebalance", "stop"])
def test_a_joined_member_waits_until_there_is_something_to_do(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "_IDLE_POLL", 60.0)
    member, coordinator = joined(Instance()), Coordinator()
    waiting = threading.Thread(
        target=member._wait, args=[SimpleNamespace(_coordinator=coordinator)], daemon=True
    )
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    if reason == "rejoin":
        member.rejoin()
    else:
        member._wake.set()
        waiting.join(0.1)
        assert waiting.is_alive(), "there is no reason"
        of_reason = coordinator.rebalances if reason == "rebalance" else member._stop
        of_reason.set()
        member._wake.set()
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_joined_member_polls_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise kafka-python leaves the group after `max_poll_interval_ms`."""
    monkeypatch.setattr(member_module, "_IDLE_POLL", 0.05)
    member: Any = joined(Instance())
    member._wait(SimpleNamespace(_coordinator=Coordinator()))
    assert member._settings["max_poll_interval_ms"] >= 5_000 * _REAL_IDLE_POLL


def test_heartbeats_are_frequent_just_after_a_join(monkeypatch: pytest.MonkeyPatch) -> None:
    member, coordinator = joined(Instance()), Coordinator()
    consumer: Any = SimpleNamespace(_coordinator=coordinator)
    assert member._heartbeat_ms(consumer) == 100
    monkeypatch.setattr(member_module, "_JOINED_RECENTLY", 0.0)
    assert member._heartbeat_ms(consumer) == 400, "a fifth of the session timeout"
    coordinator.rebalances.set()
    assert member._heartbeat_ms(consumer) == 100, "the next join follows"


def test_heartbeats_of_a_large_group_are_no_load_for_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(member_module, "_IDLE_POLL", 0.0)
    coordinator = Coordinator()
    consumer: Any = SimpleNamespace(_coordinator=coordinator)
    member = joined(Instance())
    for members, interval in [(25, 100), (60, 240), (2_000, 400)]:
        member._topology(place([candidate(f"b{i}") for i in range(members)], {"orders": 1}, 5))
        member._wait(consumer)
        assert coordinator.heartbeat.config["heartbeat_interval_ms"] == interval


def test_heartbeats_are_not_frequent_while_the_topology_is_fetched() -> None:
    """A topology is sent by reference if the group is large."""
    member = joined(Instance())
    member._assigned(TopologyReference.to(b"x", 1, candidate("b9", port=1).member, 5), 7)
    consumer: Any = SimpleNamespace(_coordinator=Coordinator())
    assert member._heartbeat_ms(consumer) == 400


def test_a_topology_by_reference_is_applied_when_it_is_there() -> None:
    instance = Instance()
    member = joined(instance)
    topology = place([candidate("b1")], {"orders": 1}, 5)
    nobody = candidate("b9", port=1).member  # refuses connections
    reference = TopologyReference.to(topology.encode(), 1, nobody, 5)
    member._assigned(reference, 7)
    assert instance.topologies == []
    instance.now += 1
    member._fetch()
    assert instance.topologies == [], "nobody has it"
    instance.encoded.add(topology.encode())
    instance.now += 1
    member._fetch()
    [found] = instance.topologies
    assert (found.epoch, found.views) == (Epoch(5, 7), topology.views)
    assert member._metadata().referenced_ms == 5
    member._fetch()
    assert len(instance.topologies) == 1


def test_a_newer_topology_ends_the_search_for_an_older_one() -> None:
    instance = Instance()
    member = joined(instance)
    older, newer = (place([candidate("b1")], {"orders": 1}, ms) for ms in (5, 6))
    instance.encoded.add(older.encode())
    member._assigned(TopologyReference.to(older.encode(), 1, candidate("b9").member, 5), 7)
    member._assigned(newer, 8)
    member._fetch()
    assert instance.topologies == [newer]


def test_without_the_topology_the_group_needs_another_one() -> None:
    instance = Instance()
    member = joined(instance)
    nobody = candidate("b9", port=1).member
    member._assigned(TopologyReference.to(b"lost", 1, nobody, 5), 7)
    instance.now += 1
    member._fetch()
    assert not member._rejoin.is_set()
    instance.now += GIVE_UP_AFTER + 1
    member._fetch()
    assert member._rejoin.is_set()
    assert member._fetcher.wait is None


def test_a_malformed_topology_is_logged_and_not_fetched_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    instance = Instance()
    member = joined(instance)
    instance.encoded.add(b"nonsense")
    member._assigned(TopologyReference.to(b"nonsense", 1, candidate("b9").member, 5), 7)
    member._fetch()
    assert "the leader's topology is invalid" in caplog.text
    assert (instance.topologies, member._fetcher.wait) == ([], None)


def test_attempts_are_made_in_time() -> None:
    instance = Instance()
    member: Any = joined(instance)
    member._assigned(TopologyReference.to(b"x", 1, candidate("b9", port=1).member, 5), 7)
    instance.now += 1
    member._fetch()
    began = time.monotonic()
    member._wait(SimpleNamespace(_coordinator=Coordinator()))
    assert 0.09 < time.monotonic() - began < _REAL_IDLE_POLL / 2


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
        selector._poll_once()
        selector.close()
