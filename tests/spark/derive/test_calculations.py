"""Derived views with calculations, parts of times and lists, compared with plain Python."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import SparkSession

from tests.spark.derive.support import START, frame, raw, table, view_of

Line = dict[str, Any]
BERLIN = ZoneInfo("Europe/Berlin")


def orders() -> list[Line]:
    random = Random(5)
    return [
        {
            "shop": f"s{random.randrange(3)}",
            "qty": random.choice([1, 2, 7, 2**31 - 1, -(2**31)]),
            "price": random.choice([0.01, 12.34, 9999999999999.99]),
            "ts": START * 1000 + random.randrange(10**9),
            "tags": random.choice([[], ["a"], ["a", "b", "a"]]),
            "codes": random.choice([None, [7], [7, 8]]),
            "labels": random.choice([{}, {"colour": "red"}, {"colour": 1, "size": None}]),
        }
        for _ in range(200)
    ]


FIELDS = """\
from = "orders"
fields = { shop = "string", qty = "int", price = "decimal(2)", ts = "long", tags = "strings", \
codes = "longs?", labels = "map" }
"""


def views(session: SparkSession, lines: list[Line], rest: str) -> dict[str, Any]:
    view = view_of(f"[views.x]\nvalue = 'json'\n[views.x.derive]\n{FIELDS}{rest}")
    records = frame(session, [raw(line, START) for line in lines])
    assert view.rejected(records).collect() == []
    found = table(view.result(records).collect())
    return {
        key.decode(): json.loads(value, parse_float=Decimal, parse_int=Decimal)
        for key, value in found.items()
    }


def test_sums_of_products_have_all_digits(session: SparkSession) -> None:
    lines = orders()
    turnover: dict[str, Decimal] = defaultdict(Decimal)
    most: dict[str, Decimal] = {}
    for line in lines:
        product = line["qty"] * Decimal(str(line["price"]))
        turnover[line["shop"]] += product
        most[line["shop"]] = max(most.get(line["shop"], product), product)
    found = views(
        session,
        lines,
        'key = "shop"\nsum = { turnover = "qty * price" }\nmax = { most = "qty * price" }\n',
    )
    assert found == {
        shop: {"turnover": total, "most": most[shop]} for shop, total in turnover.items()
    }


def test_a_key_of_a_day_in_a_zone(session: SparkSession) -> None:
    lines = orders()
    counts: dict[str, int] = defaultdict(int)
    for line in lines:
        counts[str(datetime.fromtimestamp(line["ts"] / 1000, BERLIN).date())] += 1
    found = views(
        session,
        lines,
        'let = { at = "timestamp_millis(ts)" }\n'
        "key = \"coalesce(date(at, 'Europe/Berlin'), '')\"\ncount = { n = true }\n",
    )
    assert found == {day: {"n": count} for day, count in counts.items()}


def test_a_row_for_each_element(session: SparkSession) -> None:
    lines = orders()
    tags: dict[str, int] = defaultdict(int)
    codes: dict[str, int] = defaultdict(int)
    for line in lines:
        for tag in line["tags"]:
            tags[tag] += 1
        for code in line["codes"] or []:
            codes[str(code)] += 1
    each = 'key = "{0}"\neach = {{ {0} = "{1}" }}\ncount = {{ n = true }}\n'
    found = views(session, lines, each.format("tag", "tags"))
    assert found == {tag: {"n": count} for tag, count in tags.items()}
    assert views(session, lines, each.format("word", "split('x,y', ',')")) == {
        word: {"n": len(lines)} for word in "xy"
    }


def test_a_row_for_each_object(session: SparkSession) -> None:
    view = view_of(
        """
[views.x.derive]
from = "orders"
each = { item = "items" }
filter = "item.qty > 0"
key = "item.sku"
count = { orders = true }
sum = { turnover = "item.qty * item.price" }
max = { last = "item.at" }
[views.x.derive.fields]
items.type = "objects?"
items.fields = { sku = "string", qty = "int", price = "decimal(2)", at = "time?" }
"""
    )
    random = Random(7)
    lines: list[Line] = [
        {
            "items": [
                {
                    "sku": random.choice("abc"),
                    "qty": random.randrange(3),
                    "price": random.choice([0.1, 9.99]),
                    "at": random.choice([None, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]),
                    "other": 1,
                }
                for _ in range(random.randrange(4))
            ]
        }
        for _ in range(50)
    ]
    expected: dict[str, Line] = {}
    for line in lines:
        for item in line["items"]:
            if item["qty"] > 0:
                row = expected.setdefault(item["sku"], {"orders": 0, "turnover": 0, "last": ""})
                row["orders"] += 1
                row["turnover"] += item["qty"] * Decimal(str(item["price"]))
                row["last"] = max(row["last"], item["at"] or "")
    wrong = [
        (
            {"items": [{"sku": "a", "qty": 1, "price": 1}, {"sku": "a"}]},
            "items: element 2: qty: missing",
        ),
        ({"items": [1]}, "items: element 1: not an object"),
        ({"items": [{"sku": "x" * 10_001, "qty": 1, "price": 1}]}, "key: more than 10000 bytes"),
        ({"items": {}}, "items: not a list"),
    ]
    records = [raw(line, START) for line in [*lines, {"items": None}, *(line for line, _ in wrong)]]
    given = frame(session, records)
    rejected = sorted(view.rejected(given).collect(), key=lambda row: row["offset"])
    assert [row["reason"] for row in rejected] == [reason for _, reason in wrong]
    found = table(view.result(given).collect())
    assert {
        key.decode(): json.loads(value, parse_float=Decimal) for key, value in found.items()
    } == expected


def test_lists_and_maps_in_values(session: SparkSession) -> None:
    lines = [{**line, "shop": f"{number}"} for number, line in enumerate(orders())]
    found = views(
        session,
        lines,
        'key = "shop"\nlatest = "ts"\n'
        "[views.x.derive.select]\ntags = 'tags'\ncodes = 'codes'\n"
        "colour = \"labels['colour']\"\nat = 'timestamp_millis(ts)'\n"
        "has_a = \"contains(tags, 'a')\"",
    )
    for line in lines:
        colour = line["labels"].get("colour")
        at = datetime.fromtimestamp(line["ts"] / 1000, ZoneInfo("UTC"))
        text = at.isoformat(timespec="milliseconds" if line["ts"] % 1000 else "seconds")
        expected = {
            "tags": line["tags"],
            "codes": line["codes"],
            "colour": None if colour is None else str(colour),
            "at": text.replace("+00:00", "Z"),
            "has_a": "a" in line["tags"],
        }
        assert found[line["shop"]] == {k: v for k, v in expected.items() if v is not None}


def test_records_that_are_not_of_the_types(session: SparkSession) -> None:
    view = view_of(
        "[views.x.derive]\nfrom = 't'\nkey = 'a'\ncount = true\n"
        "fields = { a = 'string', share = 'decimal(2)? 0..1', tags = 'strings?', "
        "codes = 'longs?', labels = 'map?' }"
    )
    cases = [
        ({"share": 1.01}, "share: not within 0.00 to 1.00"),
        ({"tags": "x"}, "tags: not a list"),
        ({"tags": ["x", 1]}, "tags: element 2: not a string"),
        ({"tags": ["x", None]}, "tags: element 2: not a string"),
        ({"codes": [1, 2.5]}, "codes: element 2: not a whole number of 64 bits"),
        ({"labels": []}, "labels: not an object"),
        ({"labels": {"x": [1]}}, "labels: x: not a text, a number or a boolean"),
        ({"share": 1, "tags": [], "codes": [1], "labels": {"x": None}}, None),
    ]
    records = frame(session, [raw({"a": "a", **line}, START) for line, _ in cases])
    reasons = {row["offset"]: row["reason"] for row in view.rejected(records).collect()}
    assert [reasons.get(number) for number in range(len(cases))] == [why for _, why in cases]
