"""Views of several topics, and what a view sees of a record, from and to a real broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from local.demo.verify import dead_letters
from local.kafka.broker import Broker, quiet_admin
from local.waiting import wait_until
from spark.errors import JobError
from spark.formats.decoders import JsonDecoder, TextDecoder
from spark.joins import Reference, Table, joined
from spark.kafka_admin import KafkaAdmin
from spark.settings import Settings
from spark.sources import Kafka
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from spark.view import Source, View
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history

ORDERS = JsonDecoder(
    StructType(
        [
            StructField("customer", StringType(), nullable=False),
            StructField("currency", StringType(), nullable=False),
            StructField("amount", IntegerType(), nullable=False),
        ]
    )
)
CUSTOMERS = JsonDecoder(StructType([StructField("city", StringType(), nullable=False)]))
RATES = JsonDecoder(StructType([StructField("rate", IntegerType(), nullable=False)]))


def orders_with_city(orders: DataFrame, customers: DataFrame, rates: DataFrame) -> DataFrame:
    """The rate of a currency is static, the city of a customer is not."""
    rate = rates.select(F.col("key").cast("string").alias("currency"), "rate")
    priced = orders.join(rate, "currency").select(
        F.col("key").cast("string").alias("order"),
        "customer",
        (F.col("amount") * F.col("rate")).alias("amount"),
        F.col("headers")[0]["value"].cast("string").alias("channel"),
        "partition",
        "offset",
    )
    named = customers.select(F.col("key").cast("string").alias("id"), "city", "partition", "offset")
    rows = joined(
        Table(priced, ["order"]), customer_=Reference(Table(named, ["id"]), on=["customer"])
    )
    value = F.struct("amount", "channel", F.col("customer_.city").alias("city"))
    return rows.select(F.col("order").alias("key"), F.to_json(value).alias("value"))


class Shop:
    """Topics of a shop, and a job that runs to their current ends each time."""

    def __init__(
        self, session: SparkSession, servers: str, make_topic: MakeTopic, folder: Path
    ) -> None:
        self._session = session
        self.servers = servers
        self.writer = Writer(servers)
        self.orders, self.customers, self.rates = (make_topic() for _ in range(3))
        self.view = View(
            name="shop",
            sources=(
                Source(self.orders, ORDERS),
                Source(self.customers, CUSTOMERS),
                Source(self.rates, RATES, static=True),
            ),
            topic=f"{self.orders}-shop",
            partitions=1,
            derive=orders_with_city,
        )
        self.settings = Settings(
            views=[self.view],
            kafka=Kafka(servers),
            checkpoint_dir=str(folder / "checkpoints"),
            progress=folder / "progress.json",
            once=True,
        )

    def order(self, key: str, customer: str, amount: int, channel: str) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        value = {"customer": customer, "currency": "EUR", "amount": amount}
        headers: list[tuple[str, str | bytes | None]] = [("channel", channel.encode())]
        producer.produce(self.orders, json.dumps(value), key, headers=headers)
        assert producer.flush(20) == 0

    def run(self) -> dict[str, Any]:
        supervise(self._session, self.settings, StopSignal())
        assert self.settings.progress is not None
        progress: dict[str, Any] = json.loads(self.settings.progress.read_text())["shop"]
        return progress

    def table(self) -> dict[str, Any]:
        [log] = history(self.servers, self.view.topic, 1)
        return {key.decode(): json.loads(value or b"null") for _, _, key, value in log.records}


@pytest.fixture
def shop(session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> Shop:
    return Shop(session, broker.bootstrap_servers, make_topic, tmp_path)


def test_a_view_of_streams_and_a_static_table(shop: Shop) -> None:
    shop.writer.table(shop.rates, {"EUR": {"rate": 10}, "DKK": {"rate": 1}})
    shop.writer.table(shop.customers, {"ann": {"city": "Oslo"}, "x": {"town": "?"}})
    shop.order("1", "ann", 5, "web")
    shop.order("2", "bob", 7, "shop")
    shop.writer.send(shop.orders, [(b"3", b"{nope")])
    progress = shop.run()
    first = {"amount": 50, "channel": "web", "city": "Oslo"}
    assert shop.table() == {"1": first, "2": {"amount": 70, "channel": "shop"}}
    assert progress["source_offsets"] == {shop.orders: {"0": 3}, shop.customers: {"0": 2}}
    for topic, value in ((shop.orders, b"{nope"), (shop.customers, b'{"town": "?"}')):
        [(found, headers)] = dead_letters(shop.servers, f"{topic}.dead-letter").values()
        assert (found, headers["source-topic"]) == (value, topic.encode())
    topics = quiet_admin(shop.servers).list_topics(timeout=10).topics
    assert f"{shop.rates}.dead-letter" not in topics, "a static topic has no dead letters"

    # a customer that arrives later, or moves, changes the orders
    shop.writer.table(shop.customers, {"bob": {"city": "Rome"}, "ann": {"city": "Bergen"}})
    shop.run()
    assert shop.table() == {
        "1": {**first, "city": "Bergen"},
        "2": {"amount": 70, "channel": "shop", "city": "Rome"},
    }

    # a static table must not change
    shop.writer.table(shop.rates, {"EUR": {"rate": 11}})
    with pytest.raises(JobError, match=f"the static source {shop.rates} has changed") as raised:
        shop.run()
    assert f"delete {shop.settings.checkpoint(shop.view)}, and start" in str(raised.value)


def test_brokers_that_do_not_answer_at_the_first_start_are_asked_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.writer.table(shop.rates, {"EUR": {"rate": 10}})
    shop.order("1", "ann", 5, "web")
    end_offsets, failures = KafkaAdmin.end_offsets, [OSError("TimeoutException: null")]

    def unreliable(admin: KafkaAdmin, topics: Mapping[str, int]) -> dict[str, dict[int, int]]:
        if failures and shop.rates in topics:
            raise failures.pop()
        return end_offsets(admin, topics)

    monkeypatch.setattr(KafkaAdmin, "end_offsets", unreliable)
    with pytest.raises(JobError, match=f"the offsets of {shop.rates} cannot be read: Timeout"):
        shop.run()  # it would be started again without `once`
    assert shop.run()["state"] == "done"
    assert shop.table().keys() == {"1"}


def test_a_static_table_must_not_lose_records(shop: Shop) -> None:
    shop.writer.table(shop.rates, {"EUR": {"rate": 10}, "DKK": {"rate": 1}})
    shop.order("1", "ann", 5, "web")
    shop.run()
    shop.run()
    # as a checkpoint of an earlier release
    starts = Path(shop.settings.checkpoint(shop.view)) / "static-sources-starts.json"
    starts.unlink()
    shop.run()
    # as if the retention had deleted it
    admin = quiet_admin(shop.servers)
    [future] = admin.delete_records([TopicPartition(shop.rates, 0, 1)]).values()
    future.result(10)
    shop.order("2", "ann", 5, "web")
    with pytest.raises(JobError, match=f"the static source {shop.rates} has lost records"):
        shop.run()
    assert shop.table().keys() == {"1"}


def test_a_view_ends_when_its_static_table_changes_while_it_runs(
    shop: Shop, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark.supervision.supervisor._TOPIC_CHECK_INTERVAL_S", 0.2)
    shop.writer.table(shop.rates, {"EUR": {"rate": 10}})
    shop.order("1", "ann", 5, "web")
    shop.settings = replace(shop.settings, once=False, trigger="100 milliseconds")
    stop = StopSignal()
    progress = shop.settings.progress
    assert progress is not None

    def state() -> str:
        return str(json.loads(progress.read_text())["shop"]["state"]) if progress.exists() else ""

    raised: list[JobError] = []

    def run() -> None:
        try:
            supervise(session, shop.settings, stop)
        except JobError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: thread.is_alive() and state() == "running", 60, "the view to run")
    wait_until(lambda: _exists(shop) and len(shop.table()) == 1, 60, "the first order")
    shop.writer.table(shop.rates, {"EUR": {"rate": 11}})
    wait_until(lambda: state() == "failed", 60, "the view to fail")
    thread.join(60)  # no other view runs
    assert not thread.is_alive()
    assert "has changed since shop was first started" in str(raised[0])
    assert state() == "failed"


def _exists(shop: Shop) -> bool:
    return shop.view.topic in quiet_admin(shop.servers).list_topics(timeout=10).topics


def test_each_decoder_passes_on_the_columns_of_the_record(
    session: SparkSession, records: Callable[..., DataFrame]
) -> None:
    rows = records((b"k", b'{"city": "Oslo"}')).withColumn(
        "headers", F.expr("array(struct('a' AS key, X'01' AS value))")
    )
    for decoded in (CUSTOMERS.well_formed(rows), TextDecoder().well_formed(rows)):
        [row] = decoded.collect()
        assert (bytes(row["key"]), row["partition"], row["offset"]) == (b"k", 0, 0)
        assert row["timestamp"] is not None
        assert [(each["key"], bytes(each["value"])) for each in row["headers"]] == [("a", b"\1")]
