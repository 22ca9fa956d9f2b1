"""When an instance asks its group for a new map."""

from __future__ import annotations

from typing import Any, cast

from backend.ingest.topic_metadata import TopicMetadata
from backend.membership_reporter import MembershipReporter
from model.topology import Epoch, PlacedView, Topology
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import ME, OTHER, context

USERS = view("users")


class Joined:
    """Instance b1, which holds nothing; the map says that both topics have three partitions, and
    was made at 100 s."""

    def __init__(self) -> None:
        self.now = 100.0
        self._context = context([ORDERS, USERS])
        views = {
            each.name: PlacedView(each.description(), each.hash, (1, 1, 1))
            for each in (ORDERS, USERS)
        }
        self._context.take_topology(Topology(Epoch(5, 1), (ME, OTHER), views))
        self.membership_reporter = MembershipReporter(
            self._context,
            (ORDERS, USERS),
            self._context.store_partitions,
            dict,
            tuple,
            lambda: self.now,
        )
        self.tell()

    def tell(self) -> None:
        """The group hears of this instance, and makes the same map again."""
        self.membership_reporter.now(Epoch(5, 1))

    def see(self, topic: str, partitions: int) -> None:
        """What the broker says."""
        topic_metadata = TopicMetadata("topic-1", partitions, {}, {}, None, self.now)
        cast(Any, self._context.metadata_poller).latest[topic] = topic_metadata

    def asks(self) -> bool:
        return self.membership_reporter.is_out_of_date()


def test_other_partitions_than_the_map_has_are_told_when_the_leader_does_not_act() -> None:
    b1 = Joined()
    b1.see("orders", 3)
    b1.see("users", 4)
    assert not b1.asks(), "the leader looks for them itself"
    b1.now += 10
    assert not b1.asks()
    b1.now += 0.1
    assert b1.asks()


def test_the_same_is_told_again_every_ten_seconds_at_most() -> None:
    b1 = Joined()
    b1.see("users", 4)
    asked = []
    for _ in range(60):
        b1.now += 0.5
        if b1.asks():
            asked.append(b1.now - 100)
            b1.tell()
    assert asked == [10.5, 21.0]


def test_what_the_map_says_or_nobody_knows_is_not_told() -> None:
    b1 = Joined()
    b1.now += 1_000
    assert not b1.asks(), "the broker has not been asked yet"
    b1.see("orders", 3)
    b1.see("users", 3)
    b1.see("another", 4)
    assert not b1.asks()
    b1.see("orders", 2)
    assert b1.asks(), "a topic that was made anew may have fewer"
