"""Views that read and write Avro and Protobuf, on a real broker. One session and one registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from backend.ingest.schema_registry import SchemaRegistry
from local.kafka.broker import Broker
from model.formats.registry import FORMATS
from model.formats.schemas import CONFLUENT
from spark.errors import JobError, Unavailable
from spark.event_time.bounds import EventTimeBounds
from spark.formats import registry as settings_of_registry
from spark.formats.avro import AvroFormat
from spark.formats.batches import Format
from spark.formats.decoders import FormatDecoder, JsonDecoder
from spark.formats.encoders import Encodable, encoded
from spark.formats.protobuf import ProtobufFormat
from spark.formats.records import RAW_RECORD
from spark.settings import Settings
from spark.sources import Kafka
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from spark.tables import mapped
from spark.view import View
from tests.support.dead_letters import records_of
from tests.support.in_process import protobuf_examples as protobuf
from tests.support.in_process.avro_examples import FakeRegistry, binary, framed, registry
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history

AT = datetime(2026, 1, 1, tzinfo=UTC)
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
OLDER = {**ORDER, "fields": ORDER["fields"][:3]}  # type: ignore[index]
FIELDS = ("order_id", "price", "at", "note")


class Schemas:
    """As the backends' cache, but it waits."""

    state = ""

    def __init__(self, url: str) -> None:
        self.schema = self.stored_schema = SchemaRegistry(url).fetch


@pytest.fixture
def running(session: SparkSession) -> Iterator[FakeRegistry]:
    with registry() as running:
        session.conf.set(settings_of_registry.URL, running.url)
        session.conf.set(settings_of_registry.MISSING_AFTER, "0")
        yield running
        session.conf.unset(settings_of_registry.URL)
        session.conf.unset(settings_of_registry.MISSING_AFTER)


Run = Callable[..., tuple[dict[bytes, Any], list[str]]]


@pytest.fixture
def run(session: SparkSession, broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> Run:
    """`run(values, read, write)`: what a view topic has, and the reasons of dead letters."""
    servers = broker.bootstrap_servers

    def run(
        values: list[bytes | None], read: Format, write: Encodable | None, **options: Any
    ) -> tuple[dict[bytes, Any], list[str]]:
        source, topic = make_topic(), make_topic(cleanup_policy="compact")

        def derive(orders: DataFrame) -> DataFrame:
            fields = F.struct(*FIELDS)
            if write is None:
                return mapped(orders, F.to_json(fields))
            rows = mapped(orders, fields)
            return rows.withColumn("value", encoded(F.col("value"), write, **options))

        view = View(
            name="orders", description="orders by key", source=source, topic=topic,
            decoder=FormatDecoder(read, is_table=True), derive=derive,
        )  # fmt: skip
        writer = Writer(servers)
        writer.send(source, [(b"%d" % n, value) for n, value in enumerate(values)])
        checkpoints = str(tmp_path / source)
        supervise(
            session,
            Settings([view], Kafka(servers), checkpoints, once=True),
            StopSignal(),
        )
        [log] = history(servers, topic, 1)
        letters = records_of(servers, f"{source}.dead-letter")
        reasons = [dict(letter.headers())["reason"].decode() for letter in letters]
        return {key: value for _, _, key, value in log.records}, reasons

    return run


def order(schema: Any = ORDER, **changes: Any) -> bytes:
    return binary(schema, {"order_id": 1, "price": 2.5, "at": AT, "note": None, **changes})


def test_avro_in_and_out_without_a_registry(run: Run) -> None:
    of = AvroFormat(json.dumps(ORDER))
    table, reasons = run([order(), b"\0", None, order(note="n")], of, of)
    assert table == {b"0": order(), b"2": None, b"3": order(note="n")}
    assert len(reasons) == 1
    assert reasons[0].startswith("does not match the Avro schema")


def test_avro_in_and_protobuf_out_with_a_registry(run: Run, running: FakeRegistry) -> None:
    running.add(1, OLDER)
    running.add(2, ORDER)
    plain = {"order_id": 1, "price": 2.5, "at": AT}
    table, reasons = run(
        [
            framed(1, OLDER, plain),
            framed(2, ORDER, {**plain, "order_id": 2, "note": "n"}),
            framed(3, ORDER, plain),
            None,
        ],
        AvroFormat(json.dumps(ORDER), is_framed=True),
        ProtobufFormat(protobuf.DESCRIPTORS, "shop.Order", is_framed=True),
        subject="orders-value",
    )
    assert reasons == ["schema 3: the registry has no schema with this id"]
    codec = FORMATS["protobuf"].codec_with(CONFLUENT, Schemas(running.url))
    assert table.keys() == {b"0", b"1", b"3"}
    assert table[b"3"] is None
    for key, note in ((b"0", None), (b"1", "n")):
        codec.check(table[key])
        found = json.loads(codec.to_json(table[key]))
        assert (found["orderId"], found["at"]) == (str(int(key) + 1), "2026-01-01T00:00:00Z")
        assert found.get("note") == note


def test_protobuf_in_and_avro_out_with_a_registry(run: Run, running: FakeRegistry) -> None:
    running.register("/", {"schemaType": "PROTOBUF", "schema": protobuf.serialized(protobuf.SHOP)})
    message = protobuf.order(order_id=2**62, price=2.5, at=AT, note="n")
    table, reasons = run(
        [protobuf.framed(100, message), protobuf.framed(100, protobuf.key(1), b"\2\2"), b"\0"],
        ProtobufFormat(protobuf.DESCRIPTORS, "shop.Order", is_framed=True),
        AvroFormat(json.dumps(ORDER), is_framed=True),
        subject="orders-value",
    )
    assert sorted(reasons) == [
        "a shop.Key, not a shop.Order",
        "without Confluent's framing: a zero byte and 4 bytes with the schema id",
    ]
    codec = FORMATS["avro"].codec_with(CONFLUENT, Schemas(running.url))
    assert table.keys() == {b"0"}
    codec.check(table[b"0"])
    assert json.loads(codec.to_json(table[b"0"])) == {
        "order_id": 2**62, "price": 2.5, "at": "2026-01-01T00:00:00.000Z", "note": "n",
    }  # fmt: skip


def test_a_registry_that_is_away_fails_the_query_and_loses_nothing(
    run: Run, running: FakeRegistry
) -> None:
    running.answers["/schemas/ids/1"] = (500, b"")
    with pytest.raises(JobError, match=r"/schemas/ids/1 answers 500"):
        run([framed(1, ORDER, {"order_id": 1, "price": 2.5, "at": AT})],
            AvroFormat(json.dumps(ORDER), is_framed=True), None)  # fmt: skip


def test_a_schema_that_is_rejected_is_an_error_at_the_start(
    session: SparkSession, running: FakeRegistry
) -> None:
    path = "/subjects/orders-value/versions"
    running.answers[path] = (409, {"error_code": 409, "message": "incompatible with version 3"})
    rows = session.range(1)
    encode = partial(encoded, F.struct("id"), subject="orders-value")
    of = AvroFormat('{"type": "record", "name": "R", "fields": []}', is_framed=True)
    with pytest.raises(JobError, match=r"orders-value was not registered: .*incompatible with"):
        rows.select(encode(of))
    running.answers[path] = (401, b"")
    with pytest.raises(JobError, match=r"orders-value was not registered: .* answers 401"):
        rows.select(encode(of))
    session.conf.unset(settings_of_registry.URL)
    with pytest.raises(JobError, match=r"Set registry in \[schemas\]"):
        rows.select(encode(of))


def test_a_value_that_does_not_fit_its_schema_fails(session: SparkSession) -> None:
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]
    of = AvroFormat(json.dumps({"type": "record", "name": "R", "fields": fields}))
    for a, b, why in (
        ("2147483648", "'x'", "too large"),
        ("CAST(NULL AS INT)", "'x'", "does not fit the Avro schema"),
        ("1", "2", "'x'|string|bytes"),
    ):
        rows = session.sql(f"SELECT {a} AS a, {b} AS b")
        with pytest.raises(Exception, match=why):
            rows.select(encoded(F.struct("a", "b"), of)).collect()
    rows = session.sql("SELECT 1 AS a, 'x' AS b, 2 AS c")
    for names, why in ((("a",), "b"), (("a", "b", "c"), "c")):
        with pytest.raises(Exception, match=f"does not fit the Avro schema: .*{why}"):
            rows.select(encoded(F.struct(*names), of)).collect()
    [row] = rows.select(encoded(F.struct("b", "a"), of).alias("v")).collect()
    assert bytes(row["v"]) == b"\2\2x"


def test_the_time_of_an_event_needs_a_column(session: SparkSession) -> None:
    of = AvroFormat(json.dumps(ORDER), column="order")
    decoder = FormatDecoder(of, event_time=EventTimeBounds("at", 60, 60))
    rows = session.createDataFrame([], RAW_RECORD)
    with pytest.raises(JobError, match="no column at of the type timestamp"):
        decoder.well_formed(rows)
    assert "at" in replace(decoder, value=AvroFormat(of.schema)).well_formed(rows).columns
    schema = StructType([StructField("at", StringType())])
    with pytest.raises(JobError, match="no column at of the type timestamp"):
        JsonDecoder(schema, event_time=decoder.event_time).malformed(rows)


def test_the_password_of_the_registry_is_read_each_time(
    session: SparkSession, running: FakeRegistry, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    session.conf.set(settings_of_registry.AUTH, f"queryable:${{file:{file}}}")
    try:
        for password in ("old", "new"):
            file.write_text(password)
            assert settings_of_registry.registry_of(session).auth == f"queryable:{password}"
        file.unlink()
        with pytest.raises(Unavailable, match=r"QUERYABLE_SCHEMA_REGISTRY_AUTH: cannot read"):
            settings_of_registry.registry_of(session)
    finally:
        session.conf.unset(settings_of_registry.AUTH)
