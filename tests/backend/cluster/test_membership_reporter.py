"""Requests of an instance for a new topology."""

from __future__ import annotations

from typing import Any, cast

from backend.ingest.topic_metadata import TopicMetadata
from backend.membership_reporter import MembershipReporter
from model.topology import Epoch, PlacedView, Topology
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import ME, OTHER, context

USERS = view("users")


class Joined:
    """Instance b1, which holds nothing. The topology was made at 100 s, and has three partitions
    for each topic."""

    def __init__(self) -> None:
        self.now = 100.0
        self._context = context([ORDERS, USERS])
        views = {
            each.name: PlacedView(each.description(), each.hash, (1, 1, 1))
            for each in (ORDERS, USERS)
        }
        self._context.apply_topology(Topology(Epoch(5, 1), (ME, OTHER), views))
        self.membership_reporter = MembershipReporter(
            self._context,
            (ORDERS, USERS),
            self._context.store_partitions,
            dict,
            tuple,
            lambda: self.now,
        )
        self.report()

    def report(self) -> None:
        """The leader gets the metadata of this instance, and makes the same topology again."""
        self.membership_reporter.now(Epoch(5, 1))

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Sets the partition count that the broker reports."""
        topic_metadata = TopicMetadata("topic-1", partitions, {}, {}, None, self.now)
        cast(Any, self._context.metadata_poller).latest[topic] = topic_metadata

    def requests_topology(self) -> bool:
        return self.membership_reporter.is_out_of_date()


def test_a_changed_partition_count_is_reported_if_the_leader_does_not_act() -> None:
    b1 = Joined()
    b1.set_partitions("orders", 3)
    b1.set_partitions("users", 4)
    assert not b1.requests_topology(), "the leader notices new partitions itself"
    b1.now += 10
    assert not b1.requests_topology()
    b1.now += 0.1
    assert b1.requests_topology()


def test_a_report_is_repeated_at_most_every_ten_seconds() -> None:
    b1 = Joined()
    b1.set_partitions("users", 4)
    times = []
    for _ in range(60):
        b1.now += 0.5
        if b1.requests_topology():
            times.append(b1.now - 100)
            b1.report()
    assert times == [10.5, 21.0]


def test_matching_or_unknown_partition_counts_are_not_reported() -> None:
    b1 = Joined()
    b1.now += 1_000
    assert not b1.requests_topology(), "the broker has not been asked yet"
    b1.set_partitions("orders", 3)
    b1.set_partitions("users", 3)
    b1.set_partitions("another", 4)
    assert not b1.requests_topology()
    b1.set_partitions("orders", 2)
    assert b1.requests_topology(), "a topic that was deleted and created may have fewer"
