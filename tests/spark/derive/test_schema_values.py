"""Derived views of Avro and Protobuf, bare and framed, also after the schema has evolved. The bytes
are written by fastavro and by the library protobuf."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from model.views_file import parse_views
from spark.derive.views import derived_view
from spark.formats import registry as settings_of_registry
from spark.view import View
from tests.spark.derive.support import START, Raw, frame, streamed, table
from tests.support.in_process import protobuf_examples as protobuf
from tests.support.in_process.avro_examples import FakeRegistry, binary, framed, registry

AT = datetime(2026, 1, 1, 10, 0, 5, 250_000, tzinfo=UTC)
OLDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12,
                                   "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "share", "type": "double"},
        {"name": "home", "type": ["null", {"type": "record", "name": "Home", "fields": [
            {"name": "city", "type": "string"}, {"name": "floor", "type": "int"}]}]},
        {"name": "old", "type": "string"},
    ],
}  # fmt: skip
NEWER: dict[str, Any] = {
    **OLDER,
    "fields": [
        *OLDER["fields"][:5],
        {"name": "shop", "type": {"type": "enum", "name": "Shop", "symbols": ["WEB", "STORE"]},
         "default": "STORE"},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}  # fmt: skip
SOURCE = """\
[sources.orders]
format = "avro"
schema = "order.avsc"
{framed}
[views.x.derive]
from = "orders"
{rest}
"""
MAP = """\
where = "home.floor > 0"
key = "id"
select = { price = "price", at = "at", city = "home.city", shop = "shop" }
"""


def view_of(rest: str, schema: dict[str, Any], is_framed: bool) -> View:
    text = SOURCE.format(rest=rest, framed='value_schema = "confluent"' if is_framed else "")
    [entry] = parse_views(text, read=lambda _: json.dumps(schema).encode()).views
    view = derived_view(entry)
    assert view is not None
    return view


def order(number: int, **changes: Any) -> dict[str, Any]:
    home = {"city": "Bern", "floor": number}
    fields = {"id": f"o{number}", "price": Decimal("1.50"), "at": AT, "share": 0.5, "home": home}
    return fields | {"old": "x", "shop": "WEB", "tags": ["a"]} | changes


@pytest.fixture
def running(session: SparkSession) -> Iterator[FakeRegistry]:
    with registry() as running:
        session.conf.set(settings_of_registry.URL, running.url)
        session.conf.set(settings_of_registry.MISSING_AFTER, "0")
        yield running
        session.conf.unset(settings_of_registry.URL)
        session.conf.unset(settings_of_registry.MISSING_AFTER)


def expected(number: int, shop: str) -> dict[str, Any]:
    return {"price": 1.5, "at": "2026-01-01T10:00:05.250Z", "city": "Bern", "shop": shop}


def rows(view: View, session: SparkSession, records: list[Raw]) -> dict[str, Any]:
    found = table(view.result(frame(session, records)).collect())
    return {key.decode(): json.loads(value) for key, value in found.items()}


def test_bare_records_of_one_schema(session: SparkSession) -> None:
    view = view_of(MAP, NEWER, is_framed=False)
    values = [
        binary(NEWER, order(1)),
        binary(NEWER, order(0)),  # `where`
        binary(NEWER, order(2, home=None)),  # null is not greater
        binary(NEWER, order(3, share=float("nan"))),
        binary(NEWER, order(4)) + b"x",
        None,
        b"",
    ]
    records: list[Raw] = [(b"k", value, START) for value in values]
    assert rows(view, session, records) == {"o1": expected(1, "WEB")}
    letters = view.inputs[0].decoder.malformed(frame(session, records)).collect()
    reasons = {row["offset"]: row["reason"] for row in letters}
    assert reasons.keys() == {3, 4, 5, 6}
    assert reasons[3] == "share: nan is not a number that JSON has"
    assert reasons[4].startswith("value: does not match the Avro schema")
    assert reasons[5] == "value: null"


def test_records_of_before_and_after_the_schema_evolved(
    session: SparkSession, running: FakeRegistry
) -> None:
    """A field that is new has its default in older records; one that is gone is not read."""
    running.add(1, OLDER)
    running.add(2, NEWER)
    view = view_of(MAP, NEWER, is_framed=True)
    values = [
        framed(1, OLDER, order(1)),
        framed(2, NEWER, order(2)),
        framed(3, NEWER, order(3)),  # an id that the registry does not have
        binary(NEWER, order(4)),
    ]
    records: list[Raw] = [(b"k", value, START) for value in values]
    assert rows(view, session, records) == {"o1": expected(1, "STORE"), "o2": expected(2, "WEB")}
    letters = view.inputs[0].decoder.malformed(frame(session, records)).collect()
    assert {row["offset"] for row in letters} == {2, 3}


@pytest.mark.parametrize("is_framed", [False, True])
def test_protobuf_messages(session: SparkSession, running: FakeRegistry, is_framed: bool) -> None:
    """A framed message may have a schema that is older than the file."""
    text = (
        SOURCE.replace("avro", "protobuf")
        .replace("order.avsc", "shop.desc")
        .format(
            rest='where = "price > 1"\nkey = "order_id"\n'
            'select = { note = "note", status = "status", at = "at" }',
            framed='message = "shop.Order"' + ('\nvalue_schema = "confluent"' if is_framed else ""),
        )
    )
    [entry] = parse_views(text, read=lambda _: protobuf.DESCRIPTORS).views
    view = derived_view(entry)
    assert view is not None
    path = "/schemas/ids/7"
    running.answers[path] = (200, {"schemaType": "PROTOBUF", "schema": "as text"})
    running.answers[f"{path}?format=serialized"] = (
        200,
        {"schemaType": "PROTOBUF", "schema": protobuf.serialized(protobuf.SHOP)},
    )
    messages = [
        protobuf.Order(order_id=number, price=price, note=note, status=number % 2)
        for number, price, note in [(1, 2.5, "n"), (2, 0.5, "x"), (3, 9.0, None)]
    ]
    messages[2].at.FromJsonString("2026-01-01T10:00:00Z")
    head = b"\0\0\0\0\7\0" if is_framed else b""
    values = [head + message.SerializeToString() for message in messages]
    records: list[Raw] = [(b"k", value, START) for value in (*values, head + b"\xff", None)]
    found = table(view.result(frame(session, records)).collect())
    long = "A_VERY_LONG_NAME_OF_A_STATUS_THAT_TAKES_ONE_BYTE"
    assert {int.from_bytes(key, "big"): json.loads(value) for key, value in found.items()} == {
        1: {"note": "n", "status": long},
        3: {"status": long, "at": "2026-01-01T10:00:00Z"},
    }
    letters = view.inputs[0].decoder.malformed(frame(session, records)).collect()
    assert {row["offset"] for row in letters} == {3, 4}


def test_state_by_fields_of_a_record(session: SparkSession, tmp_path: Path) -> None:
    view = view_of(
        'key = "coalesce(home.city, \'\')"\nidentity = ["id", "home.city", "price"]\n'
        'count = true\nsum = { turnover = "price" }',
        NEWER,
        is_framed=False,
    )
    records: list[Raw] = [
        (b"k", binary(NEWER, order(n % 5, home=None if n % 5 == 4 else order(0)["home"])), START)
        for n in range(12)
    ]
    found = table(view.result(frame(session, records)).collect())
    assert {key: json.loads(value) for key, value in found.items()} == {
        b"Bern": {"count": 4, "turnover": 6.0},
        b"": {"count": 1, "turnover": 1.5},
    }
    assert streamed(session, view, [records[:5], records[5:]], tmp_path) == found
