"""Views of tables: tombstones and updates take back what a key has contributed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from local.kafka.broker import Broker
from spark.errors import JobError, Unavailable
from spark.formats.decoders import JsonDecoder
from spark.formats.records import RAW_RECORD
from spark.kafka_admin import KafkaAdmin
from spark.settings import Settings
from spark.sources import Kafka
from spark.supervision import tombstones
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from spark.tables import changes, latest, mapped
from spark.view import View
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history, set_config, table_of

# 2^53 + 1 is no double
BIG = 9_007_199_254_740_993
CUSTOMERS = JsonDecoder(
    StructType(
        [
            StructField("city", StringType(), nullable=False),
            StructField("credit", LongType()),
            StructField("since", TimestampType()),
        ]
    ),
    lambda customer: None if customer["city"] else "city: missing",
    is_table=True,
)


def customers(rows: DataFrame) -> DataFrame:
    return mapped(rows, F.to_json(F.struct("city", "credit")))


def cities(rows: DataFrame) -> DataFrame:
    """The customers and their credit in each city."""
    found = changes(rows, "city", "credit", "since", groups=3).groupBy("city")
    credit = F.coalesce(F.sum(F.col("change") * F.col("credit")), F.lit(0)).alias("credit")
    counted = found.agg(F.sum("change").alias("count"), credit)
    value = F.to_json(F.struct("count", "credit"))
    return counted.select(
        F.col("city").alias("key"), F.when(F.col("count") > 0, value).alias("value")
    )


def customer(city: str, credit: int | None = 1, **more: Any) -> bytes:
    return json.dumps({"city": city, "credit": credit, **more}).encode()


Record = tuple[bytes | None, bytes | None]
HISTORY: list[Record] = [
    (b"a", customer("Rome", BIG, since="2026-01-01T10:00:00Z")),
    (b"b", customer("Rome", 2)),
    (b"c", customer("Oslo", None)),
    (b"d", customer("Kyiv")),
    (b"e", None),
    (b"a", customer("Oslo", BIG)),  # moves
    (b"b", customer("Rome", 5)),
    (b"d", None),
    (b"f", customer("Rome")),
    (b"f", None),
    (b"f", customer("Lima", 7)),
    (b"g", b"{"),
    (None, customer("Rome")),
    (b"\xff", customer("Lima", 7)),
    (b"c", customer("Oslo", None)),  # the same again
]
CITIES = {
    "Rome": {"count": 1, "credit": 5},
    "Oslo": {"count": 2, "credit": BIG},
    "Lima": {"count": 2, "credit": 14},
}


def rows_of(session: SparkSession, records: Sequence[Record]) -> DataFrame:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [("raw", 0, n, at, key, value, None) for n, (key, value) in enumerate(records)]
    return session.createDataFrame(rows, RAW_RECORD)


def table(rows: DataFrame) -> dict[str, Any]:
    """What remains of the rows in this order, as in a view topic."""
    found = {row["key"]: row["value"] for row in rows.collect()}
    return {
        (key if isinstance(key, str) else bytes(key).decode("latin-1")): json.loads(value)
        for key, value in found.items()
        if value is not None
    }


def test_a_batch_has_the_newest_row_of_each_key(session: SparkSession) -> None:
    rows = CUSTOMERS.well_formed(rows_of(session, HISTORY))
    newest = {bytes(row["key"]): row for row in latest(rows).collect()}
    assert {key: row["city"] for key, row in newest.items() if not row["deleted"]} == {
        b"a": "Oslo", b"b": "Rome", b"c": "Oslo", b"f": "Lima", b"\xff": "Lima",
    }  # fmt: skip
    assert {key for key, row in newest.items() if row["deleted"]} == {b"d", b"e"}
    assert table(customers(rows)).keys() == {"a", "b", "c", "f", "\xff"}
    assert table(cities(rows)) == CITIES
    rejected = CUSTOMERS.malformed(rows_of(session, HISTORY)).collect()
    assert sorted(row["reason"].split(":")[0] for row in rejected) == ["key", "value"]


def test_changes_keep_the_microseconds_of_times(session: SparkSession, tmp_path: Path) -> None:
    columns = "at timestamp, local timestamp_ntz, nested struct<local: timestamp_ntz>"
    local = datetime(2026, 1, 1, 10, 0, 0, 123456)
    time = local.replace(tzinfo=UTC)
    rows = session.createDataFrame(
        [(b"a", False, 0, 0, time, local, (local,))],
        f"key binary, deleted boolean, partition int, offset long, {columns}",
    )
    rows.write.parquet(str(tmp_path / "rows"))
    stream = session.readStream.schema(rows.schema).parquet(str(tmp_path / "rows"))
    writer = changes(stream, "at", "local", "nested").writeStream.format("memory")
    writer = writer.queryName("changes_of_times").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(60)
    found = session.table("changes_of_times").collect()
    assert found == changes(rows, "at", "local", "nested").collect()
    assert found[0]["local"] == found[0]["nested"]["local"] == local


def test_a_stream_ends_with_the_table_of_a_batch(
    session: SparkSession,
    broker: Broker,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tombstones, "_TOLERATED_S", 0.0)
    servers = broker.bootstrap_servers
    writer = Writer(servers)
    # a topic that is compacted takes no record without a key
    records = [(key, value) for key, value in HISTORY if key not in (None, b"\xff")]
    newest = dict(records)
    # what compaction leaves
    compacted = [record for record in newest.items() if record[1] is not None]
    assert len(compacted) == 5

    def views(source: str) -> list[View]:
        def view(name: str, derive: Callable[[DataFrame], DataFrame]) -> View:
            topic = make_topic(cleanup_policy="compact")
            return View(name=name, source=source, topic=topic, decoder=CUSTOMERS, derive=derive)

        return [view("customers", customers), view("cities", cities)]

    def run(folder: str, chosen: list[View]) -> list[dict[str, Any]]:
        checkpoints = str(tmp_path / folder)
        settings = Settings(chosen, Kafka(servers), checkpoints, once=True)
        supervise(session, settings, StopSignal())
        return [table_of(history(servers, each.topic, 1)) for each in chosen]

    source = make_topic(cleanup_policy="compact")
    live = views(source)
    for part in (records[:6], records[6:]):
        writer.send(source, part)
        tables = run("live", live)
    names = {key: value["city"] for key, value in tables[0].items()}
    assert names == {"a": "Oslo", "b": "Rome", "c": "Oslo", "f": "Lima"}
    assert tables[1] == {**CITIES, "Lima": {"count": 1, "credit": 7}}

    late = make_topic(cleanup_policy="compact")
    writer.send(late, compacted)
    assert run("late", views(late)) == tables

    set_config(servers, source, "delete.retention.ms", "0")
    with pytest.raises(JobError, match=r"customers: .* keeps tombstones for 0 s .*To rebuild"):
        run("live", live)


def test_unreachable_brokers_do_not_mean_that_tombstones_are_kept(session: SparkSession) -> None:
    short = {"request.timeout.ms": "500", "default.api.timeout.ms": "500"}
    with KafkaAdmin(session, Kafka("127.0.0.1:1", short)) as admin, pytest.raises(Unavailable):
        admin.config("customers", "delete.retention.ms")
