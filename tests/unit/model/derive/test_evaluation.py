"""Derived views on records in memory. tests/spark/derive/test_evaluation.py compares with Spark."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from model.derive.evaluation.evaluate import as_line, evaluate
from model.derive.evaluation.records import Record, parse_lines
from model.views import View
from model.views_file import parse_views


def view_of(derive: str, entry: str = "") -> View:
    [view] = parse_views(f"[views.x]\n{entry}\n[views.x.derive]\n{derive}").views
    return view


def records(*values: Any, **common: Any) -> list[Record]:
    return [Record(json.dumps(value).encode(), **common) for value in values]


def test_a_sum_of_products() -> None:
    view = view_of(
        'from = "t"\nfields = { shop = "string", qty = "int", price = "decimal(2)" }\n'
        'key = "shop"\nsum = "qty * price"',
        'value = "json"',
    )
    found = evaluate(
        view,
        records(
            {"shop": "a", "qty": 2, "price": 1.25},
            {"shop": "b", "qty": -1, "price": 0.1},
            {"shop": "a", "qty": 1, "price": 9999999999999.99},
            {"shop": "a", "qty": 1},
        ),
    )
    assert found.values == {
        "a": {"sum": Decimal("10000000000002.49")},
        "b": {"sum": Decimal("-0.10")},
    }
    assert [(letter.number, letter.reason) for letter in found.dead_letters] == [
        (4, "price: missing")
    ]
    assert list(found.lines()) == [
        '{"key":"a","value":{"sum":10000000000002.49}}',
        '{"key":"b","value":{"sum":-0.10}}',
    ]


def test_a_late_record_is_a_dead_letter() -> None:
    view = view_of(
        'from = "t"\nfields = { at = "time" }\ntime = "at"\nlateness = "10s"\nwindow = "1m"\n'
        "key = \"'all'\"\ncount = true"
    )
    at = {"at": "2026-01-01T00:00:00Z"}
    start = 1_767_225_600_000
    found = evaluate(
        view, [*records(at, timestamp=start + 10_000), *records(at, timestamp=start + 10_001)]
    )
    assert found.entries == [{"key": "all", "start": start, "value": 1}]
    assert [letter.reason for letter in found.dead_letters] == [
        "at: late: more than 10 s before the record's timestamp"
    ]


def test_a_join_has_the_newest_row() -> None:
    view = view_of(
        'from = "t"\nfields = { plane = "string" }\nkey = "coalesce(p.maker, \'none\')"\n'
        'count = true\njoin.p = { from = "planes", on = "plane", static = true, '
        'fields = { maker = "string" } }'
    )
    planes = [
        Record(b'{"maker":"A"}', b"1"),
        Record(b'{"maker":"B"}', b"1"),
        Record(b'{"maker":"C"}', b"2"),
        Record(None, b"2"),
    ]
    given = records({"plane": "1"}, {"plane": "2"}, {"plane": "3"})
    assert evaluate(view, given, {"p": planes}).values == {"B": 1, "none": 2}
    with pytest.raises(ValueError, match="view x needs the records of table p"):
        evaluate(view, given)
    with pytest.raises(ValueError, match="view x has no table q"):
        evaluate(view, given, {"p": [], "q": []})


def test_rows_of_lists_and_sessions() -> None:
    words = view_of(
        'from = "t"\nkey = "word"\ncount = true\neach = { word = "split(text, \' \')" }'
    )
    assert evaluate(words, [Record(b"a b a"), Record(b"b")]).values == {"a": 2, "b": 2}
    items = view_of(
        'from = "t"\nkey = "item.sku"\nsum = "item.qty"\neach = { item = "items" }\n'
        'fields.items = { type = "objects", fields = { sku = "string", qty = "int" } }'
    )
    given = records({"items": [{"sku": "a", "qty": 2}, {"sku": "a", "qty": 3}]})
    assert evaluate(items, given).values == {"a": 5}
    visits = view_of('from = "t"\nkey = "text"\ncount = true\nsession = "1s"')
    timestamps = (0, 1000, 2001, 2500)
    found = evaluate(visits, [Record(b"k", None, 1_767_225_600_000 + at) for at in timestamps])
    assert [(e["start"] % 10**5, e["end"] % 10**5, e["value"]) for e in found.entries] == [
        (0, 1000, 2),
        (2001, 2500, 2),
    ]


def test_lines_of_records() -> None:
    lines = [
        b'{"key": "k", "value": {"a": 1}, "timestamp": "2026-01-01T00:00:00Z", "partition": 3}',
        b"",
        b'{"value": "text"}',
        b'{"key": "k", "value": null, "timestamp": 5}',
    ]
    assert parse_lines(lines, whole=True, timestamp=7) == [
        Record(b'{"a": 1}', b"k", 1_767_225_600_000, 3),
        Record(b"text", None, 7),
        Record(None, b"k", 5),
    ]
    assert parse_lines([b' {"value": 1} '], whole=False) == [Record(b'{"value": 1}')]
    for line, reason in (
        (b"{", "line 2: not JSON"),
        (b'{"id": 1}', "line 2: not an object with key, value, timestamp and partition only"),
        (b'{"value": 1, "timestamp": "x"}', "line 2: not a time"),
        (b'{"value": 1, "timestamp": 1.5}', "line 2: timestamp is neither"),
        (b'{"value": 1, "partition": -1}', "line 2: partition is not"),
    ):
        with pytest.raises(ValueError, match=reason):
            parse_lines([b"", line], whole=True)


def test_decimals_in_lines() -> None:
    document = {"a": [Decimal("0.00000010"), 'x"'], "b": None, "c": {"d": True}}
    assert as_line(document) == '{"a":[0.00000010,"x\\""],"b":null,"c":{"d":true}}'
