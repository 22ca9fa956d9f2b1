"""What a member of the group asks its instance for, and what it does with a topology."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from kafka.errors import KafkaError

from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.member import IDLE_POLL, GroupMember
from backend.cluster.placement import Policy, place
from backend.cluster.topic_partitions import TopicPartitions
from backend.cluster.topology_fetcher import GIVE_UP_AFTER, TopologyFetcher
from local.waiting import wait_until
from model.group.id_in_use import IdInUse
from model.group.member_metadata import MemberMetadata
from model.group.topology_reference import TopologyReference
from model.records import hash_of_topic
from model.topology import Epoch, Topology
from tests.support.in_process.examples import candidate
from tests.support.in_process.group import FakeGroup

PATIENCE = 7.0  # s
SOON = 0.002  # s between two polls
LONG = 60.0  # s; longer than a test waits
NOBODY = candidate("b9", port=1).member  # refuses connections


class Instance:
    """Counts how often its metadata are taken: each time it believes that the leader has them."""

    def __init__(self) -> None:
        self.topologies: list[Topology] = []
        self.encoded = EncodedTopologies()
        self.now = 100.0  # s
        self.fetcher = TopologyFetcher("b1", self.encoded, None, clock=lambda: self.now)
        self.fetches_at_reports: list[bool] = []
        self.ends: list[str] = []
        self.polled: TopicPartitions | None = None

    @property
    def reports(self) -> int:
        return len(self.fetches_at_reports)

    def metadata(self) -> MemberMetadata:
        self.fetches_at_reports.append(self.fetcher.wait is not None)
        return candidate("b1")

    def member(self, group: FakeGroup, idle_poll: float = SOON) -> GroupMember:
        """Its heartbeats have an interval of 400 ms."""
        return GroupMember(
            group.open, 400, self.metadata, self.topologies.append, Policy(), self.encoded,
            self.fetcher, 900_000, lambda topic: self.polled, self.ends.append, PATIENCE, idle_poll,
            lambda: self.now,
        )  # fmt: skip


def topology_of(*ids: str, ms: int = 5) -> Topology:
    return place([candidate(id_) for id_ in ids], {"orders": 1}, ms)


def reference_to(encoded: bytes) -> TopologyReference:
    return TopologyReference.for_topology(encoded, 1, NOBODY, 5)


@contextmanager
def running(member: GroupMember, group: FakeGroup) -> Iterator[GroupMember]:
    """After its first join."""
    member.start()
    try:
        wait_until(lambda: group.polls and not group.must_join, 10, "a join", SOON)
        yield member
    finally:
        member.stop(10)
    assert not member.alive
    assert group.closed == group.opened


def some_polls(group: FakeGroup, polls: int = 5) -> None:
    """Wait for this many polls that begin from now on."""
    enough = len(group.polls) + polls + 1
    wait_until(lambda: len(group.polls) >= enough, 10, "polls", SOON)


def test_a_topology_takes_no_metadata_that_the_leader_does_not_get() -> None:
    """Else a partition that becomes answerable between a join and its topology counts as reported,
    and stays warming for ten seconds."""
    instance, group = Instance(), FakeGroup()
    topology = topology_of("b1")
    group.assigned.append(topology)
    with running(instance.member(group), group):
        some_polls(group)
    assert instance.topologies == [Topology.decode(topology.encode(), 1)]
    assert instance.reports == len(group.sent) == 1


def test_a_leader_knows_the_current_topology_and_what_was_polled() -> None:
    """Else it would take partitions away that it has heard of itself."""
    instance, group = Instance(), FakeGroup()
    topic = hash_of_topic("topic-1")
    instance.polled = TopicPartitions(topic, 3)
    with running(instance.member(group), group) as member:
        [first] = instance.topologies
        assert first.views["orders"].partitions == 3
        five = place([candidate("b1")], {"orders": 5}, first.epoch.ms + 1)
        placed = replace(five.views["orders"], topic_hash=topic)
        group.assigned.append(replace(five, views={"orders": placed}))
        for count in (2, 3):
            member.rejoin()
            wait_until(lambda: len(instance.topologies) == count, 10, "a topology", SOON)  # noqa: B023
    assert [each.views["orders"].partitions for each in instance.topologies] == [3, 5, 5]


def test_one_that_is_not_in_the_topology_says_so(caplog: pytest.LogCaptureFixture) -> None:
    instance, group = Instance(), FakeGroup()
    group.assigned.append(topology_of("b2"))
    with caplog.at_level(logging.ERROR), running(instance.member(group), group):
        pass
    assert "instance b1 (127.0.0.1:8081) is not in the topology" in caplog.text


HOLDER = IdInUse(candidate("b1", host="10.0.0.11").member)


def test_one_whose_id_another_instance_has_asks_again_and_then_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Regression: it stayed in the group without partitions, and only a line of the log said so."""
    instance, group = Instance(), FakeGroup()
    group.assigned += [HOLDER, HOLDER]
    with running(instance.member(group), group) as member:
        some_polls(group)
        assert "gets no partitions: another instance with this id" in caplog.text
        # the group may not have noticed yet that the other one has crashed
        assert (instance.ends, instance.reports, group.closed) == ([], 1, 0)
        instance.now += PATIENCE
        member.rejoin()  # wakes it
        wait_until(lambda: instance.ends, 10, "the end", SOON)
        assert group.closed == 1
    [reason] = instance.ends
    for part in ("instance b1 (127.0.0.1:8081)", "10.0.0.11:8081", "QUERYABLE_INSTANCE_ID"):
        assert part in reason
    assert instance.topologies == []


def test_it_asks_again_by_itself() -> None:
    instance, group = Instance(), FakeGroup()
    group.assigned += [HOLDER, HOLDER]
    with running(instance.member(group), group):
        instance.now += PATIENCE
        wait_until(lambda: instance.ends, 10, "the end", SOON)


def test_one_whose_id_becomes_free_stays() -> None:
    """As after a crash and a start on another host, and while an instance is being moved."""
    instance, group = Instance(), FakeGroup()
    group.assigned += [HOLDER]
    with running(instance.member(group), group):
        some_polls(group)
        group.rebalance()  # the other one has left
        wait_until(lambda: instance.topologies, 10, "a topology", SOON)
        instance.now += 2 * PATIENCE
        reports = instance.reports
        some_polls(group)
        assert (instance.ends, instance.reports) == ([], reports)
        # a later refusal begins a new wait
        group.assigned += [HOLDER]
        group.rebalance()
        wait_until(lambda: not group.assigned, 10, "a refusal", SOON)
        some_polls(group)
        assert instance.ends == []


@pytest.mark.parametrize("polls", range(6))
def test_what_changes_during_a_join_is_sent_with_another_one(polls: int) -> None:
    """Regression: an instance stayed drained if it was undrained while its group rebalanced."""
    instance, group = Instance(), FakeGroup(polls_per_join=3)
    member = instance.member(group)
    sent: list[int] = []
    change = 6  # the first join has ended
    group.before_poll[change].append(member.rejoin)
    group.before_poll[change + polls] += [lambda: sent.append(instance.reports), member.rejoin]
    with running(member, group):
        wait_until(lambda: len(group.polls) > change + polls + 20, 10, "some polls", SOON)
        assert instance.reports == sent[0] + 1
        assert not group.must_join


@pytest.mark.parametrize("reason", ["rejoin", "rebalance", "stop"])
def test_a_joined_member_waits_until_there_is_something_to_do(reason: str) -> None:
    instance, group = Instance(), FakeGroup()
    with running(instance.member(group, idle_poll=LONG), group) as member:
        for _ in range(3):  # the last ones come while it waits
            checks = group.checks
            group.call_back()
            wait_until(lambda: group.checks > checks, 10, "a check", SOON)  # noqa: B023
        assert len(group.polls) == 1, "there was no reason"
        if reason == "stop":
            member.stop(10)
            assert not member.alive
        else:
            member.rejoin() if reason == "rejoin" else group.rebalance()
            wait_until(lambda: instance.reports == 2, 10, "another join", SOON)


def test_a_joined_member_polls_now_and_then() -> None:
    """Otherwise kafka-python leaves the group after `max_poll_interval_ms`."""
    instance, group = Instance(), FakeGroup()
    with running(instance.member(group), group):
        some_polls(group)
        assert instance.reports == 1


def test_a_failed_consumer_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Reads and ingest continue, and so does the thread, with another consumer a second later."""
    instance, group = Instance(), FakeGroup()

    def fail() -> None:
        raise KafkaError("the broker has gone")

    group.before_poll[4].append(fail)
    with running(instance.member(group), group) as member:
        wait_until(lambda: group.closed, 10, "the failure", SOON)
        assert member.alive
    assert "group membership: KafkaError: the broker has gone" in caplog.text


def test_heartbeats_are_frequent_just_after_a_join() -> None:
    instance, group = Instance(), FakeGroup()
    with running(instance.member(group), group):
        some_polls(group)
        assert group.heartbeat_ms == 100
        instance.now += 3.1
        wait_until(lambda: group.heartbeat_ms == 400, 10, "rare heartbeats", SOON)
        some_polls(group)
        assert group.heartbeat_ms == 400
        group.rebalance()
        wait_until(lambda: instance.reports == 2, 10, "another join", SOON)
        assert group.heartbeat_ms_of_joins == [100, 100], "frequent before a join"


def test_heartbeats_of_a_large_group_are_no_load_for_the_broker() -> None:
    instance, group = Instance(), FakeGroup()
    group.assigned.append(topology_of())
    with running(instance.member(group), group) as member:
        for members, interval in [(25, 100), (60, 240), (2_000, 400)]:
            group.assigned.append(topology_of(*(f"b{i}" for i in range(1, members + 1))))
            known = len(instance.topologies)
            member.rejoin()
            wait_until(lambda: len(instance.topologies) > known, 10, "a topology", SOON)  # noqa: B023
            some_polls(group, 1)
            assert group.heartbeat_ms == interval


def test_heartbeats_are_not_frequent_while_the_topology_is_fetched() -> None:
    """A topology is sent by reference if the group is large."""
    instance, group = Instance(), FakeGroup()
    group.assigned.append(reference_to(b"x"))
    with running(instance.member(group), group):
        wait_until(lambda: group.heartbeat_ms == 400, 10, "rare heartbeats", SOON)


def test_a_topology_by_reference_is_applied_when_it_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    instance, group = Instance(), FakeGroup()
    topology, next_one = topology_of("b1"), topology_of("b1", ms=6)
    group.assigned += [reference_to(topology.encode()), next_one]
    with running(instance.member(group), group) as member:
        assert instance.topologies == []
        instance.now += 1
        wait_until(lambda: "has not sent the new topology" in caplog.text, 10, "an attempt", SOON)
        assert instance.topologies == [], "nobody has it"
        instance.encoded.add(topology.encode())
        instance.now += 1
        wait_until(lambda: instance.topologies, 10, "the topology", SOON)
        [found] = instance.topologies
        assert (found.epoch, found.views) == (Epoch(5, 1), topology.views)
        some_polls(group)
        assert len(instance.topologies) == 1
        member.rejoin()
        wait_until(lambda: len(instance.topologies) == 2, 10, "the next topology", SOON)
    assert [each.referenced_ms for each in group.sent] == [0, 5]


def test_a_newer_topology_ends_the_search_for_an_older_one() -> None:
    instance, group = Instance(), FakeGroup()
    older, newer = topology_of("b1", ms=5), topology_of("b1", ms=6)
    group.assigned += [reference_to(older.encode()), newer]
    with running(instance.member(group), group):
        group.rebalance()
        wait_until(lambda: instance.topologies, 10, "the newer topology", SOON)
        instance.encoded.add(older.encode())
        instance.now += 1
        some_polls(group)
    assert instance.topologies == [Topology.decode(newer.encode(), 2)]


@pytest.mark.slow
def test_without_the_topology_the_group_needs_another_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    instance, group = Instance(), FakeGroup()
    group.assigned += [reference_to(b"lost"), topology_of("b1", ms=6)]
    with running(instance.member(group), group):
        instance.now += 1
        wait_until(lambda: "has not sent the new topology" in caplog.text, 10, "an attempt", SOON)
        some_polls(group, 1)
        assert instance.reports == 1
        instance.now += GIVE_UP_AFTER + 1
        wait_until(lambda: instance.topologies, 10, "another topology", SOON)
        some_polls(group)
    assert instance.fetches_at_reports == [False, False], "it has given up"


def test_a_malformed_topology_is_logged_and_not_fetched_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    instance, group = Instance(), FakeGroup()
    instance.encoded.add(b"nonsense")
    group.assigned.append(reference_to(b"nonsense"))
    with running(instance.member(group), group):
        instance.now += 1
        wait_until(lambda: "topology is invalid" in caplog.text, 10, "an attempt", SOON)
        some_polls(group)
    assert caplog.text.count("the leader's topology is invalid") == 1
    assert (instance.topologies, instance.fetcher.wait) == ([], None)


@pytest.mark.slow
def test_attempts_are_made_in_time() -> None:
    instance, group = Instance(), FakeGroup()
    group.assigned.append(reference_to(b"x"))
    with running(instance.member(group, idle_poll=LONG), group):
        instance.now += 1
        # the clock stands still, so the next attempt is due in 0.1 to 0.2 s
        some_polls(group, 2)
    assert group.polls[-1] - group.polls[-2] > 0.09
    assert IDLE_POLL > 0.2
