"""Conditions on views that declare their fields themselves: by a schema, or by `derive`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from model.views import View
from model.views_file import parse_views
from tests.support.in_process.avro_examples import binary
from tests.support.in_process.world import World, world
from tests.unit.backend.unreadable.applied import put

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "dest", "type": "string"},
        {"name": "delay", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}},
        {"name": "zip", "type": "string"},
        {"name": "code", "type": "string"},
    ],
}  # fmt: skip
FLIGHTS = """
[views.orders]
topic = "flights"
key = "string"
value = "avro"
value_schema = "flight.avsc"
[views.orders.indexes]
by-dest = ["dest"]
by-price = ["price"]
by-at = ["at"]
"""
COUNTS = """
[views.orders]
value = "json"
[views.orders.indexes]
by-n = ["n"]
[views.orders.derive]
from = "raw"
key = "word"
fields = { word = "string", at = "time" }
count = { n = true }
max = { last = "at" }
"""


def flight(dest: str, delay: int | None, year: int, price: str, zip_code: str = "01") -> bytes:
    at = datetime(year, 1, 1, tzinfo=UTC)
    row = {"dest": dest, "delay": delay, "at": at, "price": Decimal(price)}
    return binary(SCHEMA, {**row, "zip": zip_code, "code": "1"})


def view_of(text: str) -> View:
    [view] = parse_views(text, read=lambda _: json.dumps(SCHEMA).encode()).views
    return view


@pytest.fixture
def flights(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, view_of(FLIGHTS)) as made:
        put(made, b"a", flight("ATL", 61, 2020, "0.10"))
        put(made, b"b", flight("ATL", None, 2021, "-7.00"))
        put(made, b"c", flight("JFK", 5, 2022, "9.50", "1"))
        yield made


@pytest.mark.parametrize(
    ("where", "keys", "plan"),
    [
        ("dest = 'ATL'", ["a", "b"], "index by-dest"),
        ("price > 0.1", ["c"], "index by-price"),
        ("price * 3 = 0.3", ["a"], "scan"),  # exactly, not as doubles
        ("at >= '2021-01-01T00:00:00Z'", ["b", "c"], "index by-at"),
        ("at = '2021-01-01T01:00:00+01:00'", ["b"], "index by-at"),
        ("delay > 10", ["a"], "scan"),
        ("zip = code", ["c"], "scan"),  # texts, not the numbers that they look like
    ],
)
def test_conditions_on_the_fields_of_a_schema(
    flights: World, where: str, keys: list[str], plan: str
) -> None:
    for instance in ("b1", "b2"):
        answer = flights.ask(f"keys?where={quote(where)}", instance)
        assert [item["key"] for item in answer.json["items"]] == keys
        assert answer.named[b"plan"].decode() == plan


@pytest.mark.parametrize(
    "where", ["dest > 5", "delay = 'x'", "price = '9.50'", "at > 5", "zip = 1"]
)
def test_another_type_is_refused_when_the_condition_is_parsed(flights: World, where: str) -> None:
    answer = flights.ask(f"keys?where={quote(where)}")
    assert (answer.status, answer.json["code"]) == (400, "bad-parameter")
    assert "different types" in answer.json["detail"]


def test_orders_and_values_of_such_fields(flights: World) -> None:
    rows = flights.ask("keys?order_by=price&order=desc").json["items"]
    assert [item["key"] for item in rows] == ["c", "a", "b"]
    assert [item["key"] for item in flights.ask("by/price/-7").json["items"]] == ["b"]
    for at in ("2021-01-01T00:00:00Z", "2021-01-01T01:00:00.000%2B01:00"):
        assert [item["key"] for item in flights.ask(f"by/at/{at}").json["items"]] == ["b"]
    assert flights.code("by/at/2021", 400) == "bad-parameter"
    days = quote("date(at) like '2021-01-%'")
    assert [item["key"] for item in flights.ask(f"keys?where={days}").json["items"]] == ["b"]


def test_a_derived_view(tmp_path: Path) -> None:
    with world(tmp_path, view_of(COUNTS)) as made:
        put(made, b"x", b'{"n":2,"last":"2020-01-01T00:00:00Z"}')
        put(made, b"y", b'{"n":3,"last":"2021-01-01T00:00:00.500Z"}')
        answer = made.ask(f"keys?where={quote('n > 2')}")
        assert [item["key"] for item in answer.json["items"]] == ["y"]
        assert answer.named[b"plan"] == b"index by-n"
        late = quote("last > '2021-01-01T00:00:00Z'")
        assert [item["key"] for item in made.ask(f"keys?where={late}").json["items"]] == ["y"]
        assert made.ask(f"keys?where={quote('n > ' + repr('x'))}").status == 400
