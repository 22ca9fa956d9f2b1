"""Spark's dead letters have all of the records that they were written for."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from model.dead_letters import MAX_HEADERS_BYTES, MAX_REASON, Rejected, dead_letter, headers_bytes
from spark.formats.records import MALFORMED
from spark.sinks import dead_letters
from tests.support.dead_letters import ODD, records_of, send, undone
from tests.support.plugins.fixtures import MakeTopic
from tests.support.spark.runner import Runner


def test_headers_and_timestamps_are_kept(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    # records as old as these would be deleted
    make = partial(make_topic, retention_ms=-1)
    runner = Runner(session, servers, make, tmp_path)
    send(servers, runner.source, ODD)
    runner.once()
    assert [undone(each) for each in records_of(servers, f"{runner.source}.dead-letter")] == ODD


def test_spark_writes_the_letters_that_backends_write(session: SparkSession) -> None:
    long = [("a", b"x" * MAX_HEADERS_BYTES)]
    fits = [("é", b"x" * (MAX_HEADERS_BYTES - headers_bytes([("é", b"")])))]
    records = [
        Rejected("raw", 0, offset, 1000 * offset, key, value, headers)
        for offset, (key, value, headers) in enumerate(
            [
                (b"k", b"v", [("a", b"1"), ("a", None)]),
                (None, None, []),
                (b"k" * 300_000, b"v" * 1_100_000, long),
                (b"", b"", fits),
                (b"k", b"v", [("", b"")] * 10_000),
            ]
        )
    ]
    reason = "é" * (MAX_REASON + 1)
    rows = [
        (each.topic, each.partition, each.offset, datetime.fromtimestamp(each.offset, UTC),
         each.key, each.value, each.headers or None, reason)
        for each in records
    ]  # fmt: skip
    made = dead_letters(session.createDataFrame(rows, MALFORMED), "me").orderBy("key").collect()
    found = [
        (
            row["key"].encode(),
            bytes(row["value"]),
            [(h["key"], None if h["value"] is None else bytes(h["value"])) for h in row["headers"]],
        )
        for row in made
    ]
    assert found == [dead_letter(each, reason, "me") for each in records]
