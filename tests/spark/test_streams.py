"""The views as streams of micro-batches, from and to a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from local.demo.verify import dead_letters
from local.kafka.broker import Broker
from model.dead_letters import MAX_KEY_BYTES, MAX_VALUE_BYTES
from model.formats.registry import KEY_CODECS
from model.kafka.config import for_java
from model.kinds.layout import Layout
from model.kinds.session import SessionLayout
from model.kinds.window import WindowLayout
from model.partitioner import murmur2
from spark.event_time.watermarks import Watermarks
from spark.settings import Settings
from spark.sinks import dead_letters as dead_letters_of
from spark.sources import Kafka
from spark.supervision.queries import view_queries
from spark.view import View
from spark.views import VIEWS
from tests.spark.conftest import Records
from tests.support.brokers import PasswordBroker
from tests.support.plugins.fixtures import SASL_USERS, MakeTopic
from tests.support.spark.examples import departure, flight, request, timed
from tests.support.spark.logs import partition_of
from tests.support.topics import Writer, history
from tests.vectors.partitions import vectors


class Streams:
    """A view's two queries, which run several times to the current end of the raw topic."""

    def __init__(self, session: SparkSession, broker: Broker, view: View, folder: Path) -> None:
        self._session = session
        self._servers = broker.bootstrap_servers
        self.view = view
        self.folder = folder
        self._settings = Settings(
            views=[view],
            kafka=Kafka(broker.bootstrap_servers),
            checkpoint_dir=str(folder),
            once=True,
        )

    def run(self, dead_letters: bool = True) -> None:
        watermarks = Watermarks(self._session)
        made = view_queries(self._session, self.view, self._settings, 3, 3, watermarks)
        unstarted = made[: 1 + dead_letters]
        for query in [writer.start() for writer in unstarted]:
            assert query.awaitTermination(120)

    def forget_last_commit(self, query: str) -> None:
        """Restores the state after a crash between writing a micro-batch and committing it."""
        commits = self.folder / self.view.name / query / "commits"
        last = max(
            (path for path in commits.iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
        )
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    def records(self) -> list[tuple[int, bytes, bytes | None]]:
        """All records of the view topic: partition, key, value."""
        return [
            (partition, key, value)
            for partition, log in enumerate(history(self._servers, self.view.topic, 3))
            for _, _, key, value in log.records
        ]

    def table(self) -> dict[str, Any]:
        """The view that readers see."""
        return {key.decode(): json.loads(value or b"") for _, key, value in self.records()}

    def timed_table(self, layout: Layout) -> dict[tuple[str, ...], bytes]:
        """The view of windows or sessions. Checks that each is in the partition of its bare key."""
        table: dict[tuple[str, ...], bytes] = {}
        for partition, key, value in self.records():
            assert (murmur2(layout.bare_key(key)) & 0x7FFFFFFF) % 3 == partition
            if value is None:
                table.pop(timed(layout, key), None)
            else:
                table[timed(layout, key)] = value
        return table

    def dead_letters(self) -> dict[bytes, tuple[bytes, dict[str, bytes | None]]]:
        return dead_letters(self._servers, f"{self.view.source}.dead-letter")


@pytest.fixture
def streams_of(
    session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> Callable[[str], Streams]:
    """`streams_of(name)`: the view's streams, with their own topics."""

    def make(name: str) -> Streams:
        # by default the broker deletes records as old as those of `ship`
        source = make_topic(partitions=3, retention_ms=-1)
        make_topic(name=f"{source}.dead-letter", cleanup_policy="compact")
        target = make_topic(partitions=3, cleanup_policy="compact")
        view = replace(VIEWS[name], source=source, topic=target)
        return Streams(session, broker, view, tmp_path)

    return make


@pytest.fixture
def streams(streams_of: Callable[[str], Streams]) -> Streams:
    return streams_of("latest-departure")


Ship = Callable[..., None]


@pytest.fixture
def ship(writer: Writer) -> Ship:
    """`ship(topic, at, request(…), …)` sends lines; `at` is the time of day of their records."""

    def send(topic: str, at: str, *lines: tuple[bytes, bytes]) -> None:
        time = datetime.fromisoformat(f"2026-01-01T{at}+00:00")
        timestamp = round(1000 * time.timestamp())
        writer.send_timed(topic, [(*line, timestamp, partition_of(line[0])) for line in lines])

    return send


@pytest.fixture
def writer(broker: Broker) -> Writer:
    return Writer(broker.bootstrap_servers)


def test_a_late_record_never_moves_the_latest_backwards(streams: Streams, writer: Writer) -> None:
    source = streams.view.source
    writer.send(source, [flight(time_hour="2013-06-01T10:00:00Z")])
    streams.run()
    newest = {"N14228": departure(time="2013-06-01T10:17:00Z")}
    assert streams.table() == newest
    writer.send(source, [flight(time_hour="2013-05-01T10:00:00Z"), flight(tailnum="N2")])
    streams.run()
    assert streams.table() == {**newest, "N2": departure()}
    writer.send(source, [flight(time_hour="2013-07-01T10:00:00Z")])
    streams.run()
    assert streams.table()["N14228"] == departure(time="2013-07-01T10:17:00Z")


def test_a_replayed_micro_batch_changes_nothing(streams: Streams, writer: Writer) -> None:
    source = streams.view.source
    writer.send(source, [flight(), (b"N9", b"{nope"), flight(tailnum="N2")])
    streams.run()
    writer.send(source, [flight(time_hour="2013-06-01T10:00:00Z"), (None, b"{}")])
    streams.run()
    table, letters, written = streams.table(), streams.dead_letters(), len(streams.records())
    for query in ("view", "dead-letters"):
        streams.forget_last_commit(query)
    streams.run()
    assert len(streams.records()) > written
    assert streams.table() == table
    assert streams.dead_letters() == letters


def test_malformed_records_go_to_the_dead_letter_topic(streams: Streams, writer: Writer) -> None:
    source = streams.view.source
    writer.send(source, [(b"N9", b"{nope"), flight(), flight(tailnum=None)])
    streams.run()
    letters = {value: (key, headers) for key, (value, headers) in streams.dead_letters().items()}
    assert letters.keys() == {b"{nope", flight(tailnum=None)[1]}
    key, headers = letters[b"{nope"]
    topic, partition, offset = key.decode().rsplit(":", 2)
    assert topic == source
    assert headers["source-topic"] == source.encode()
    assert headers["source-partition"] == partition.encode()
    assert headers["source-offset"] == offset.encode()
    assert headers["source-key"] == b"N9"
    assert headers["by"] == b"spark/latest-departure"
    assert b"JSON" in (headers["reason"] or b"")
    assert "source-key" not in letters[flight(tailnum=None)[1]][1]


def test_long_values_and_keys_of_dead_letters_are_truncated(records: Records) -> None:
    rows = records((b"k" * 300_000, b"{" * 2_000_000), (b"k", b"{"))
    rejected = VIEWS["latest-departure"].rejected(rows)
    long, short = dead_letters_of(rejected, by="test").orderBy("key").collect()
    assert bytes(long["value"]) == b"{" * MAX_VALUE_BYTES
    headers = {header["key"]: bytes(header["value"]) for header in long["headers"]}
    assert headers["source-key"] == b"k" * MAX_KEY_BYTES
    assert headers["source-key-bytes"] == b"300000"
    assert headers["source-value-bytes"] == b"2000000"
    assert bytes(short["value"]) == b"{"
    assert headers.keys() - {header["key"] for header in short["headers"]} == {
        "source-key-bytes",
        "source-value-bytes",
    }


def test_a_truncated_raw_topic_is_an_error(streams: Streams, writer: Writer) -> None:
    writer.send(streams.view.source, [flight()])
    streams.run()
    [position] = (streams.folder / streams.view.name / "view" / "offsets").glob("0")
    lines = position.read_text().splitlines()
    offsets = json.loads(lines[-1])
    [topic] = offsets
    # the offsets are greater than the topic's end
    offsets[topic] = {partition: offset + 10 for partition, offset in offsets[topic].items()}
    position.write_text("\n".join([*lines[:-1], json.dumps(offsets)]))
    (position.parent / ".0.crc").unlink(missing_ok=True)
    writer.send(streams.view.source, [flight(tailnum="N2")])
    with pytest.raises(Exception, match=r"(?i)offset|data"):
        streams.run()


def test_spark_puts_records_where_the_java_client_does(
    session: SparkSession, broker: Broker, make_topic: MakeTopic
) -> None:
    counts, keys, expected = vectors("murmur2")
    topic = make_topic(partitions=9)
    rows = session.createDataFrame(
        [(bytearray(key), b"") for key in keys], "key binary, value binary"
    )
    rows.write.format("kafka").options(**Kafka(broker.bootstrap_servers).spark()).option(
        "topic", topic
    ).save()
    nine = counts.index(9)
    wanted = {key: partitions[nine] for key, partitions in zip(keys, expected, strict=True)}
    found = {
        key: partition
        for partition, log in enumerate(history(broker.bootstrap_servers, topic, 9))
        for _, _, key, _ in log.records
    }
    assert found == wanted
    assert all((murmur2(key) & 0x7FFFFFFF) % 9 == partition for key, partition in found.items())


def test_spark_takes_sasl_settings_of_a_kafka_table(
    session: SparkSession, broker: PasswordBroker, make_topic: MakeTopic
) -> None:
    [(user, password)] = SASL_USERS.items()
    table = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }
    topic = make_topic()
    kafka = Kafka(broker.sasl_bootstrap_servers, for_java(table)).spark()
    rows = session.createDataFrame([("k", "v")], "key string, value string")
    rows.write.format("kafka").options(**kafka).option("topic", topic).save()
    read = session.read.format("kafka").options(**kafka).option("subscribe", topic).load()
    assert [bytes(row["key"]) for row in read.collect()] == [b"k"]


def test_a_visit_is_live_and_late_requests_join_visits(
    streams_of: Callable[[str], Streams], ship: Ship
) -> None:
    streams, layout = streams_of("visits"), SessionLayout(KEY_CODECS["string"])
    source = streams.view.source

    def visits() -> dict[tuple[str, ...], Any]:
        return {key: json.loads(value) for key, value in streams.timed_table(layout).items()}

    hosts = [request(100 + n, "10:00:00", client=f"10.0.1.{n}") for n in range(4)]
    ship(source, "10:50:00", request(1, "10:00:00"), request(2, "10:50:00"), *hosts)
    streams.run(dead_letters=False)
    others = {
        (host.decode(), "10:00:00", "10:00:00"): {"requests": 1, "bytes": 100} for host, _ in hosts
    }
    assert visits() == {
        ("10.0.0.1", "10:00:00", "10:00:00"): {"requests": 1, "bytes": 100},
        ("10.0.0.1", "10:50:00", "10:50:00"): {"requests": 1, "bytes": 100},
        **others,
    }
    # one late line joins both visits, one was shipped before, and one is too late
    late = request(4, "09:49:59")
    ship(source, "10:50:00", request(3, "10:25:00"), request(2, "10:50:00"), late)
    streams.run()
    [(value, headers)] = streams.dead_letters().values()
    assert value == late[1]
    assert (headers["reason"] or b"").startswith(b"time: late: more than 3600 s before")
    joined = {("10.0.0.1", "10:00:00", "10:50:00"): {"requests": 3, "bytes": 300}}
    assert visits() == {**joined, **others}
    # hours later the first visit has ended, and does not change any more
    ship(source, "15:20:00", request(5, "15:00:00"), request(6, "15:20:00"))
    streams.run(dead_letters=False)
    again = request(6, "15:20:00")
    ship(source, "15:30:00", request(7, "10:55:00"), request(8, "15:30:00"), again)
    streams.run(dead_letters=False)
    later = {("10.0.0.1", "15:00:00", "15:30:00"): {"requests": 3, "bytes": 300}}
    table = visits()
    assert table == {**joined, **others, **later}
    written = len(streams.records())
    streams.forget_last_commit("view")
    streams.run(dead_letters=False)
    assert visits() == table
    assert written <= len(streams.records())


def test_late_requests_count_in_their_minute_until_they_are_too_late(
    streams_of: Callable[[str], Streams], ship: Ship
) -> None:
    streams, layout = streams_of("requests-per-minute"), WindowLayout(KEY_CODECS["string"])
    source = streams.view.source

    def counts() -> dict[tuple[str, ...], int]:
        table = streams.timed_table(layout)
        return {key: int.from_bytes(value, "big") for key, value in table.items()}

    ship(source, "11:00:01", request(1, "10:00:01"), request(2, "11:00:00"))
    streams.run(dead_letters=False)
    # a clock may be ahead by an hour
    ship(source, "10:01:00", request(3, "11:01:00"), request(9, "11:01:01"))
    # a repeated line, one that is late, and one that is too late
    ship(source, "11:00:59", request(1, "10:00:01"), request(4, "10:00:59"), request(5, "10:00:58"))
    streams.run()
    reasons = [headers["reason"] or b"" for _, headers in streams.dead_letters().values()]
    assert sorted(reasons) == [
        b"time: late: more than 3600 s before the record's timestamp",
        b"time: late: more than 3600 s before the record's timestamp",
        b"time: more than 3600 s after the record's timestamp",
    ]
    host = "10.0.0.1"
    wanted = {(host, "10:00:00"): 2, (host, "11:00:00"): 1, (host, "11:01:00"): 1}
    assert counts() == wanted
    streams.forget_last_commit("view")
    written = len(streams.records())
    streams.run(dead_letters=False)
    assert len(streams.records()) > written
    assert counts() == wanted


def test_departures_are_in_the_partition_of_their_aircraft(
    streams_of: Callable[[str], Streams], writer: Writer
) -> None:
    streams, layout = streams_of("departures"), WindowLayout(KEY_CODECS["string"])
    writer.send(streams.view.source, [flight(tailnum=f"N{n}") for n in range(9)])
    streams.run(dead_letters=False)
    found = streams.timed_table(layout)
    assert found.keys() == {(f"N{n}", "10:17:00") for n in range(9)}
    assert len({partition for partition, _, _ in streams.records()}) > 1


def test_a_flight_that_is_repeated_later_counts_once(
    streams_of: Callable[[str], Streams], writer: Writer
) -> None:
    streams = streams_of("airports")
    writer.send(streams.view.source, [flight(), flight(minute=20)])
    streams.run(dead_letters=False)
    writer.send(streams.view.source, [flight(), flight(time_hour="2012-01-01T10:00:00Z")])
    streams.run(dead_letters=False)
    assert streams.table() == {"IAH": {"count": 3}}
