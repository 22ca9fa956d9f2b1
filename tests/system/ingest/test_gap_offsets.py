"""Whether there are records after a committed offset, with a real broker."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from backend.pipelines.log_gaps import LogGaps
from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer


def test_a_gap_with_deleted_records_at_its_start_is_not_always_empty(
    broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    """A job that was down for longer than the topic's retention must still read the rest."""
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        writer.send(topic, [(b"k", b"v")] * 10, partition)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    starts = [TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 10)]
    for future in admin.delete_records(starts).values():
        future.result(20)
    some_left, none_left = ("group", (topic, 0)), ("group", (topic, 1))
    gaps = LogGaps({"bootstrap.servers": broker.bootstrap_servers})
    try:
        # they are checked in this order
        empty = wait_until(
            lambda: gaps.empty({some_left: (2, 10), none_left: (2, 10)}), 30, "an empty gap"
        )
        assert empty == {none_left}
    finally:
        gaps.close()
