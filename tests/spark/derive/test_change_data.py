"""Derived views of Debezium's changes in Avro, with keys in Avro: the same as those of the JSON, by
the evaluator without Spark. The records are those of Debezium's and Apicurio's converters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import SparkSession

import model.views as entries
from model.derive.evaluation.evaluate import Evaluation, evaluate
from model.derive.evaluation.records import Record
from model.views_file import parse_views
from spark.derive.views import derived_view
from spark.errors import JobError
from spark.formats import registry as settings_of_registry
from spark.view import View
from tests.spark.derive.support import START, Raw, frame, streamed, table
from tests.support.in_process.avro_examples import FakeRegistry, registry
from tests.support.in_process.protobuf_examples import ONE, SHOP, Field, descriptor_set
from tests.vectors.debezium_avro import changes, schemas, value_schema

SOURCES = """\
[sources.customers]
kind = "table"
format = "avro"
value_schema = "confluent"
unwrap = "debezium"
key_fields = ["id"]
[sources.orders]
kind = "{kind}"
format = "avro"
value_schema = "confluent"
unwrap = "debezium"
key_fields = ["number", "line"]
[views.x]
value = "json"
[views.x.derive]
"""
JOIN = """\
from = "orders"
key = "record_key"
select.amount = "amount"
select.at = "timestamp_micros(changed)"
select.who = "buyer.name"
select.credit = "buyer.credit"
join.buyer = { from = "customers", on = "customer" }
"""
COUNT = """\
from = "orders"
where = "customer is not null"
key = "coalesce(buyer.name, 'nobody')"
count = true
sum = { paid = "if(paid, 1, 0)" }
join.buyer = { from = "customers", on = "customer", static = true }
"""
MAP = 'from = "customers"\nkey = "record_key"\nselect = { name = "name", credit = "credit" }\n'
SUM = 'from = "customers"\nkey = "coalesce(name, \'\')"\ncount = true\nsum = "credit"\n'


@pytest.fixture
def running(session: SparkSession) -> Iterator[FakeRegistry]:
    with registry() as running:
        for schema_id, schema in schemas().items():
            running.add(schema_id, schema)
        session.conf.set(settings_of_registry.URL, running.url)
        session.conf.set(settings_of_registry.MISSING_AFTER, "0")
        yield running
        session.conf.unset(settings_of_registry.URL)
        session.conf.unset(settings_of_registry.MISSING_AFTER)


def entry_of(derive: str, suffix: str = "", kind: str = "table") -> entries.View:
    def read(name: str) -> bytes:
        return json.dumps(value_schema(f"{name.removesuffix('.avsc')}{suffix}")).encode()

    [entry] = parse_views(SOURCES.format(kind=kind) + derive, read=read).views
    return entry


def view_of(entry: entries.View) -> View:
    view = derived_view(entry)
    assert view is not None
    return view


def avro(topic: str) -> list[Raw]:
    return [(change.key, change.value, START) for change in changes(topic)]


def documents(topic: str) -> list[Record]:
    return [Record(change.json_value, change.json_key) for change in changes(topic)]


def expected(entry: entries.View, suffix: str, **tables: str) -> Evaluation:
    assert entry.derivation is not None
    rows = documents(f"{entry.derivation.source}{suffix}")
    return evaluate(
        entry, rows, {name: documents(f"{topic}{suffix}") for name, topic in tables.items()}
    )


def as_json(found: dict[bytes, bytes]) -> dict[str, Any]:
    return {key.decode(): json.loads(value) for key, value in found.items()}


def values_of(evaluation: Evaluation) -> dict[str, Any]:
    """As the JSON of Spark, without nulls and with doubles."""
    lines = map(json.loads, evaluation.lines())
    return {
        str(entry["key"]): {
            name: value for name, value in entry["value"].items() if value is not None
        }
        for entry in lines
    }


@pytest.mark.parametrize("suffix", ["", "_flat"])
@pytest.mark.parametrize("derive", [MAP, SUM], ids=["map", "sum"])
def test_a_table_of_changes(
    session: SparkSession, running: FakeRegistry, derive: str, suffix: str
) -> None:
    """With the envelope, and without it."""
    entry = entry_of(derive, suffix)
    view, evaluation = view_of(entry), expected(entry, suffix)
    records = frame(session, avro(f"customers{suffix}"))
    assert as_json(table(view.result(records).collect())) == values_of(evaluation)
    assert len(evaluation.entries) == 2
    letters = view.inputs[0].decoder.malformed(records).collect()
    assert [(row["offset"] + 1, row["reason"]) for row in letters] == [
        (letter.number, letter.reason) for letter in evaluation.dead_letters
    ]
    assert len(letters) == 2


@pytest.mark.parametrize("suffix", ["", "_flat"])
def test_a_join_of_two_tables_of_changes(
    session: SparkSession, running: FakeRegistry, tmp_path: Path, suffix: str
) -> None:
    entry = entry_of(JOIN, suffix)
    view, evaluation = view_of(entry), expected(entry, suffix, buyer="customers")
    orders = avro(f"orders{suffix}")
    customers = frame(session, avro(f"customers{suffix}"))
    path = f"{tmp_path}/customers"
    customers.coalesce(1).write.parquet(path)
    following = session.readStream.schema(customers.schema).parquet(path)
    found = streamed(session, view, [orders[:3], orders[3:]], tmp_path, following)
    assert as_json(found) == values_of(evaluation)
    assert as_json(found).keys() == {'1,"b,c"', "2,a", "3,a"}
    assert as_json(found)["3,a"] == {
        "amount": 4.0, "who": 'annie "É"', "credit": -12.05,
    }  # fmt: skip


def test_a_stream_of_changes_with_a_static_table(
    session: SparkSession, running: FakeRegistry
) -> None:
    entry = entry_of(COUNT, kind="stream")
    view, evaluation = view_of(entry), expected(entry, "", buyer="customers")
    records, customers = frame(session, avro("orders")), frame(session, avro("customers"))
    assert as_json(table(view.result(records, customers).collect())) == values_of(evaluation)
    assert [entry["key"] for entry in evaluation.entries] == ['annie "É"', "cleo", "nobody"]
    letters = view.inputs[0].decoder.malformed(records).collect()
    assert [row["reason"][:15] for row in letters] == ['value: op "t": ']
    letters = view.inputs[1].decoder.malformed(customers).collect()
    assert len(letters) == 2


def test_keys_that_are_not_documents(session: SparkSession, running: FakeRegistry) -> None:
    view = view_of(entry_of(MAP))
    first, *_ = avro("customers")
    unknown = b"\0\0\0\0\x63" + first[0][5:] if first[0] else b""
    keys = [first[0], b'{"id":1}', unknown, b'{"no":1}', None, b'{"id":null}', b"1", b""]
    records = frame(session, [(key, first[1], START) for key in keys])
    assert as_json(table(view.result(records).collect())).keys() == {"1"}
    letters = view.inputs[0].decoder.malformed(records).collect()
    reasons = {row["offset"]: row["reason"] for row in letters}
    assert reasons.keys() == {2, 3, 4, 5, 6, 7}
    assert all(reason.startswith("key: ") for reason in reasons.values())
    assert reasons[3] == "key: a document without the field id"
    assert reasons[4] == "key: null"


def test_a_field_without_a_type_does_not_matter(
    session: SparkSession, running: FakeRegistry
) -> None:
    """Money is a decimal with 64 digits in Avro. A default that Spark cannot have is refused."""
    gift = next(
        field for field in value_schema("customers_flat")["fields"] if field["name"] == "gift"
    )
    assert gift["type"][1]["precision"] == 64
    schema = value_schema("customers_flat")
    odd = {"name": "odd", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4},
           "default": "x"}  # fmt: skip
    schema = {**schema, "fields": [*schema["fields"], odd]}
    [entry] = parse_views(
        SOURCES.format(kind="table") + MAP, read=lambda _: json.dumps(schema).encode()
    ).views
    with pytest.raises(JobError, match="odd: a default value of this type is not supported"):
        view_of(entry).result(frame(session, avro("customers_flat")))


PROTOBUF = """\
[sources.orders]
kind = "table"
format = "protobuf"
schema = "change.desc"
message = "p.Change"
unwrap = "debezium"
key_fields = ["id"]
[views.x]
value = "json"
[views.x.derive]
from = "pays"
fields = { order = "string" }
key = "record_key"
where = "record_key is not null"
select = { price = "o.price", status = "o.status" }
join.o = { from = "orders", on = "order" }
"""


def test_a_join_with_changes_in_protobuf(session: SparkSession, tmp_path: Path) -> None:
    """With keys in JSON, as the JsonConverter writes them."""
    file = descriptor_pb2.FileDescriptorProto(name="change.proto", package="p", syntax="proto3")
    file.dependency.append("shop.proto")
    message = file.message_type.add(name="Change")
    message.field.add(name="op", number=1, type=Field.TYPE_STRING, label=ONE)
    for number, name in enumerate(("before", "after"), 2):
        message.field.add(name=name, number=number, type=Field.TYPE_MESSAGE,
                          type_name=".shop.Order", label=ONE)  # fmt: skip
    content = descriptor_set(SHOP, file)
    pool = DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(content).file:
        pool.AddSerializedFile(each.SerializeToString())
    change = GetMessageClass(pool.FindMessageTypeByName("p.Change"))

    def orders(number: int, op: str, price: float) -> Raw:
        row = {"order_id": number, "price": price}
        fields = {"before": row} if op == "d" else {"after": row}
        value = change(op=op, **fields).SerializeToString()
        return b'{"schema":{},"payload":{"id":%d}}' % number, value, START

    [entry] = parse_views(PROTOBUF, read=lambda _: content).views
    view = view_of(entry)
    given = [orders(1, "c", 1.5), orders(2, "r", 2.5), orders(1, "u", 3.5), orders(2, "d", 2.5)]
    tables = frame(session, [*given, orders(3, "t", 0), (b'{"id":3}', b"\xff", START)])
    path = f"{tmp_path}/orders"
    tables.coalesce(1).write.parquet(path)
    following = session.readStream.schema(tables.schema).parquet(path)
    pays = [(b"a", b'{"order":"1"}', START), (b"b", b'{"order":"2"}', START)]
    found = streamed(session, view, [pays], tmp_path, following)
    assert as_json(found) == {"a": {"price": 3.5, "status": "NEW"}, "b": {}}
    letters = view.inputs[1].decoder.malformed(tables).collect()
    assert [row["offset"] for row in letters] == [4, 5]
