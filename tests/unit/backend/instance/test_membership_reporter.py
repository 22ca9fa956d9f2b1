"""Requests of an instance for a new topology."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from backend.cluster.topic_partitions import TopicPartitions
from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.instance.context import InstanceContext
from backend.instance.membership_reporter import MembershipReporter
from backend.security.cluster import ClusterAccess
from backend.storage.data_directory import DataDirectory
from backend.storage.findings import Finding, FindingsFile
from model.machine.clock import boot_time
from model.records import StoreMetadata, hash_of_topic
from model.topology import NO_EPOCH, Epoch, PlacedView, Topology
from tests.support.in_process.examples import ORDERS, metadata, view
from tests.support.in_process.instance import ME, OTHER, Instance, context

USERS = view("users")


class Joined:
    """Instance b1, which holds nothing. The topology was made at 100 s, and has three partitions
    for each topic."""

    def __init__(self, folder: Path, cluster: ClusterAccess | None = None, **settings: Any) -> None:
        self.now = 100.0
        self.context = context([ORDERS, USERS], **settings)
        views = {
            each.name: PlacedView(each.description(), each.hash, (1, 1, 1))
            for each in (ORDERS, USERS)
        }
        self.context.group.apply_topology(Topology(Epoch(5, 1), (ME, OTHER), views))
        self.membership_reporter = MembershipReporter(
            self.context.group,
            cluster or self.context.cluster,
            self.context.metadata_poller,
            self.context.settings.ends_trusted_for,
            (ORDERS, USERS),
            self.context.store_partitions,
            dict,
            tuple,
            FindingsFile(folder),
            lambda: self.now,
        )
        self.report()

    def report(self) -> None:
        """The leader gets the metadata of this instance, and makes the same topology again."""
        self.membership_reporter.now(Epoch(5, 1))

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Sets the partition count that the broker reports."""
        topic_metadata = TopicMetadata("topic-1", partitions, {}, {}, None, self.now)
        cast(Any, self.context.metadata_poller).latest[topic] = topic_metadata

    def requests_topology(self) -> bool:
        return self.membership_reporter.is_out_of_date()


def test_a_changed_partition_count_is_reported_if_the_leader_does_not_act(tmp_path: Path) -> None:
    b1 = Joined(tmp_path)
    b1.set_partitions("orders", 3)
    b1.set_partitions("users", 4)
    assert not b1.requests_topology(), "the leader notices new partitions itself"
    b1.now += 10
    assert not b1.requests_topology()
    b1.now += 0.1
    assert b1.requests_topology()


def test_a_report_is_repeated_at_most_every_ten_seconds(tmp_path: Path) -> None:
    b1 = Joined(tmp_path)
    times = []
    for _ in range(60):
        b1.now += 0.5
        b1.set_partitions("users", 4)
        if b1.requests_topology():
            times.append(b1.now - 100)
            b1.report()
    assert times == [10.5, 21.0]


def test_a_count_that_the_broker_has_not_confirmed_since_the_report_is_not_reported_again(
    tmp_path: Path,
) -> None:
    """Regression: after a topic was deleted, instances joined the group again every ten seconds."""
    b1 = Joined(tmp_path)
    b1.set_partitions("users", 4)
    b1.now += 11
    assert b1.requests_topology()
    b1.report()
    b1.now += 1_000
    assert not b1.requests_topology()
    b1.set_partitions("users", 4)
    assert b1.requests_topology()


def test_matching_or_unknown_partition_counts_are_not_reported(tmp_path: Path) -> None:
    b1 = Joined(tmp_path)
    b1.now += 1_000
    assert not b1.requests_topology(), "the broker has not been asked yet"
    b1.set_partitions("orders", 3)
    b1.set_partitions("users", 3)
    b1.set_partitions("another", 4)
    assert not b1.requests_topology()
    b1.set_partitions("orders", 2)
    assert b1.requests_topology(), "a topic that was deleted and created may have fewer"


class Restarted:
    """Instance b1, which has stores of `orders` and `users` on its disk, and no topology yet."""

    def __init__(self, folder: Path) -> None:
        self.context = context([ORDERS, USERS])
        self.opening: list[tuple[str, int]] = []
        self.reporter = MembershipReporter(
            self.context.group,
            self.context.cluster,
            self.context.metadata_poller,
            self.context.settings.ends_trusted_for,
            (ORDERS, USERS),
            self.context.store_partitions,
            lambda: {"orders": [0], "users": [0]},
            lambda: self.opening,
            FindingsFile(folder),
        )

    def apply(self, **of_orders: Any) -> None:
        placed = PlacedView(ORDERS.description(), ORDERS.hash, (0,) * 6, **of_orders)
        topology = Topology(Epoch(6, 1), (ME, OTHER), {"orders": placed})
        self.context.group.apply_topology(topology)
        self.reporter.remember()


@contextmanager
def stores(
    folder: Path, of: InstanceContext, made_from: Mapping[int, StoreMetadata]
) -> Iterator[None]:
    """The instance has open stores of `orders`: partition -> what its store was made from."""
    instance = Instance(DataDirectory(folder / "data"), ORDERS)
    instance.context = of
    for number, each in made_from.items():
        instance.hold(number, made_from=each)
    yield
    instance.close()


def test_what_was_known_of_a_view_is_reported_after_a_restart(tmp_path: Path) -> None:
    """If all instances restart, nobody has a topology, and the stores are not open yet."""
    assert Restarted(tmp_path).reporter.now(NO_EPOCH).partition_counts == {}
    Restarted(tmp_path).apply(partition_counts=(4, 6), mispartitioned=True)
    b1 = Restarted(tmp_path)
    reported = b1.reporter.now(NO_EPOCH)
    assert reported.partition_counts == {"orders": (4, 6)}
    assert reported.topology_mispartitioned == ("orders",)
    # an instance joins before this one has opened its stores
    b1.opening = [("orders", 0)]
    b1.apply(partition_counts=(4, 6), mispartitioned=True)
    assert not b1.reporter.is_out_of_date()
    reported = b1.reporter.now(Epoch(6, 1))
    assert reported.partition_counts == {"orders": (4, 6)}
    assert reported.mispartitioned == ("orders",)
    # it opens them: they have been built again since
    b1.opening = []
    with stores(tmp_path, b1.context, {0: metadata(partitions=6)}):
        assert b1.reporter.is_out_of_date()
        assert b1.reporter.now(Epoch(6, 1)).partition_counts == {"orders": (6,)}
    b1.apply(partition_counts=(6,))
    assert Restarted(tmp_path).reporter.now(NO_EPOCH).partition_counts == {"orders": (6,)}


def know(at: Restarted, topic_id: str, partitions: int) -> None:
    """The broker has answered."""
    found = TopicMetadata(topic_id, partitions, {}, {}, None, 0.0)
    cast(Any, at.context.metadata_poller).latest["orders"] = found


def test_the_number_of_partitions_before_a_restart_is_of_its_topic(tmp_path: Path) -> None:
    """Partitions may be added, or the topic recreated, while all instances are down."""
    b1 = Restarted(tmp_path)
    b1.apply()  # there is no store yet
    know(b1, "topic-1", 6)
    b1.reporter.remember()
    for now_is, expected in (("topic-1", {"orders": (6,)}), ("topic-2", {})):
        restarted = Restarted(tmp_path)
        reported = restarted.reporter.now(NO_EPOCH)
        assert reported.partition_counts == {"orders": (6,)}
        assert reported.topic_hashes == {"orders": hash_of_topic("topic-1")}
        know(restarted, now_is, 8)
        assert restarted.reporter.now(NO_EPOCH).partition_counts == expected


def test_the_partitions_of_a_topology_without_stores_are_of_the_topic_at_that_time(
    tmp_path: Path,
) -> None:
    """Regression: keys of a topic that was created again, with more partitions, were 503
    `repartitioned` for ever."""
    b1 = Restarted(tmp_path)
    know(b1, "topic-1", 6)
    b1.apply()  # there is no store yet
    know(b1, "topic-2", 8)
    b1.opening = [("orders", 0)]
    assert b1.reporter.now(Epoch(6, 1)).partition_counts == {}
    know(b1, "topic-1", 8)
    assert b1.reporter.now(Epoch(6, 1)).partition_counts == {"orders": (6,)}, "partitions added"


def test_the_partitions_of_an_unknown_topic_are_not_reported(tmp_path: Path) -> None:
    """Regression: without the topic that they are of, they also counted for one that was created
    again, and single partitions of it could not be read any more."""
    b1 = Restarted(tmp_path)
    b1.apply()  # there is no store yet, and the broker has not answered
    b1.opening = [("orders", 0)]
    assert b1.reporter.now(Epoch(6, 1)).partition_counts == {}
    know(b1, "topic-1", 6)
    reported = b1.reporter.now(Epoch(6, 1))
    assert reported.partition_counts == {"orders": (6,)}
    assert reported.topic_hashes == {"orders": hash_of_topic("topic-1")}


def test_a_store_of_a_former_topic_is_not_reported(tmp_path: Path) -> None:
    b1 = Restarted(tmp_path)
    with stores(tmp_path, b1.context, {0: metadata(partitions=4)}):
        b1.apply()
        for topic_id, expected in (("topic-1", {"orders": (4,)}), ("topic-2", {})):
            know(b1, topic_id, 6)
            assert b1.reporter.now(Epoch(6, 1)).partition_counts == expected


def test_counts_that_the_leader_ignored_are_reported_again(tmp_path: Path) -> None:
    """Another instance still had stores of the topic before it was recreated."""
    b1 = Joined(tmp_path)
    with stores(tmp_path, b1.context, {0: metadata(partitions=3)}):
        b1.report()
        assert not b1.requests_topology()
        b1.now += 10.1
        assert b1.requests_topology()


def test_a_leader_that_passes_on_only_the_smallest_count_is_told_once(tmp_path: Path) -> None:
    """It is of an older version: another rebalance would not change that."""
    b1 = Restarted(tmp_path)
    grown = replace(metadata(partitions=5), earlier_counts=(4,))
    with stores(tmp_path, b1.context, {0: metadata(partitions=4), 5: grown}):
        b1.apply(partition_counts=(4,))
        assert b1.reporter.is_out_of_date()
        assert b1.reporter.now(Epoch(6, 1)).partition_counts == {"orders": (4, 5)}
        b1.apply(partition_counts=(4,))
        assert not b1.reporter.is_out_of_date()


def test_only_what_was_known_of_the_same_stores_is_reported(tmp_path: Path) -> None:
    FindingsFile(tmp_path).write(
        {
            "orders": Finding("another definition", (4, 6), True),
            "elsewhere": Finding(ORDERS.hash, (4, 6), True),
        }
    )
    reported = Restarted(tmp_path).reporter.now(NO_EPOCH)
    assert (reported.partition_counts, reported.topology_mispartitioned) == ({}, ())


@pytest.mark.parametrize(
    ("host", "cluster", "can"),
    [
        ("127.0.0.1", ClusterAccess(), True),
        ("10.0.0.7", ClusterAccess(), False),
        ("backend-1", ClusterAccess(), False),
        ("10.0.0.7", ClusterAccess(mutual_tls=True), True),
    ],
)
def test_topologies_are_fetched_where_instances_answer_each_other(
    tmp_path: Path, host: str, cluster: ClusterAccess, can: bool
) -> None:
    joined = Joined(tmp_path, cluster, advertised=f"{host}:8081")
    assert joined.membership_reporter.now(Epoch(5, 1)).reads_references is can


def test_what_the_broker_has_said_long_ago_does_not_count(tmp_path: Path) -> None:
    joined = Joined(tmp_path)
    latest = cast(Any, joined.context.metadata_poller).latest
    reporter = joined.membership_reporter
    assert reporter.polled_partitions("orders") is None
    found = TopicMetadata("topic-1", 3, {}, {}, None, time.monotonic(), boot_time())
    latest["orders"] = found
    assert reporter.polled_partitions("orders") == TopicPartitions(hash_of_topic("topic-1"), 3)
    latest["orders"] = replace(found, fetched_boot_time=boot_time() - 60)
    assert reporter.polled_partitions("orders") is None
