"""Derived views of changes: Debezium's events, and nulls of Kafka Connect."""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from tests.spark.derive.support import START, Raw, frame, raw, table, view_of
from tests.vectors.debezium_cases import cases
from tests.vectors.frames import frames

EVENTS = {(case.name, case.form): case.value for case in cases()}
FIELDS = 'fields = { id = "int", name = "string" }'


def event(name: str, form: str = "value", key: bytes = b"1") -> Raw:
    return key, EVENTS[name, form], START


def test_a_count_of_rows_without_deletions_and_markers(session: SparkSession) -> None:
    view = view_of(f"""\
[views.x.derive]
from = "customers"
unwrap = "debezium"
{FIELDS}
key = "name"
count = true
""")
    given = frame(
        session,
        [
            event("read"),
            event("update", "with_schema"),
            event("rewrite: create"),
            event("delete"),
            event("tombstone"),
            event("tombstone: delete", "with_schema"),
            event("heartbeat"),
            event("transaction"),
            event("unavailable text"),
            event("truncate"),
            (b"1", b"{", START),
        ],
    )
    found = table(view.result(given).collect())
    assert {key: int.from_bytes(value, "big") for key, value in found.items()} == {
        b"anna": 2,
        b"bea": 1,
    }
    rejected = view.inputs[0].decoder.malformed(given).collect()
    assert [row["offset"] for row in rejected] == [8, 9, 10]
    assert rejected[0]["reason"].startswith("value: notes: the value is unavailable")


def test_a_join_with_a_table_of_changes(session: SparkSession) -> None:
    view = view_of(f"""\
[views.x.derive]
from = "orders"
fields = {{ of = "string" }}
key = "coalesce(customer.name, 'nobody')"
count = true
[views.x.derive.join.customer]
static = true
from = "customers"
on = "of"
unwrap = "debezium"
{FIELDS}
[views.x.derive.join.seller]
static = true
from = "sellers"
on = "of"
null_deletes = true
fields = {{ name = "string" }}
""")
    orders = frame(session, [raw({"of": str(n)}, START) for n in (1, 2, 3, 3)])
    customers = frame(
        session,
        [
            event("read"),
            event("update"),
            event("create", key=b"2"),
            event("delete", key=b"2"),
            event("create", key=b"3"),
            event("heartbeat", key=b"3"),
            event("truncate", key=b"3"),
        ],
    )
    sellers = frame(session, [raw({"name": "s"}, START, b"1"), (b"1", b"null", START)])
    found = table(view.result(orders, customers, sellers).collect())
    assert {key: int.from_bytes(value, "big") for key, value in found.items()} == {
        b"bea": 1,
        b"nobody": 1,
        b"anna": 2,
    }
    rejected = view.inputs[1].decoder.malformed(customers).collect()
    assert [row["offset"] for row in rejected] == [6]
    assert view.inputs[2].decoder.malformed(sellers).collect() == []
    assert json.loads(EVENTS["create", "value"] or b"")["op"] == "c"


def test_json_with_confluents_frame(session: SparkSession) -> None:
    view = view_of("""\
[views.x.derive]
from = "orders"
value_schema = "confluent"
fields = { id = "int" }
key = "record_key"
where = "record_key is not null"
sum = "id"
""")
    framed = frames()["confluent-kafka JSONSerializer"].record
    given = frame(session, [(b"k", framed, START), (b"k", b'{"id":1}', START), (b"k", None, START)])
    found = table(view.result(given).collect())
    assert {key: int.from_bytes(value, "big") for key, value in found.items()} == {b"k": 4711}
    rejected = view.inputs[0].decoder.malformed(given).collect()
    assert [row["reason"][:21] for row in rejected] == ["value: without Conflu", "value: null"]
