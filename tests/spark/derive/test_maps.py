"""Derived views without aggregates: of streams, and of tables. The expected rows are written out,
or computed in plain Python."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from spark.moved_keys.dependence import Dependence, dependence
from spark.view import View
from tests.spark.derive.support import START, Raw, frame, raw, streamed, table, view_of
from tests.spark.derive.test_rows import FIELDS as ROW_FIELDS
from tests.spark.derive.test_rows import event

MAP = """\
[views.x.derive]
from = "orders"
fields = { id = "string", shop = "string", items = "int? 0..99", at = "time" }
let = { double = "2 * items" }
where = "items > 1"
key = "id"
select = { shop = "upper(shop)", double = "double", at = "at" }
"""
TABLE = """\
[views.x.derive]
from = "customers"
kind = "table"
fields = { name = "string", age = "int" }
where = "age >= 18"
key = "record_key"
select = ["name", "age"]
"""


def line(number: int, items: int | None) -> Raw:
    order = {"id": f"o{number % 5}", "shop": "s", "items": items, "at": "2026-01-01T10:00:00Z"}
    return raw(order, START)


def reasons(session: SparkSession, view: View, records: list[Raw]) -> list[tuple[int, str]]:
    rows = view.inputs[0].decoder.malformed(frame(session, records)).collect()
    return sorted((row["offset"], row["reason"]) for row in rows)


def test_a_map_writes_the_last_row_of_each_key(session: SparkSession, tmp_path: Path) -> None:
    view = view_of(MAP)
    records = [line(number, [None, 5, 1, 7][number % 4]) for number in range(40)]
    records += [(None, b"{", START), (b"k", None, START)]
    expected = {}
    for number in range(40):
        if number % 4 in (1, 3):  # null and 1 are left out, and delete nothing
            double = {1: 10, 3: 14}[number % 4]
            expected[f"o{number % 5}".encode()] = {
                "shop": "S", "double": double, "at": "2026-01-01T10:00:00Z",
            }  # fmt: skip
    found = table(view.result(frame(session, records)).collect())
    assert {key: json.loads(value) for key, value in found.items()} == expected
    assert streamed(session, view, [records[:13], records[13:]], tmp_path) == found
    assert [offset for offset, _ in reasons(session, view, records)] == [40, 41]


def test_a_record_becomes_a_row_for_each_text_of_a_list(session: SparkSession) -> None:
    view = view_of("""\
[views.x.derive]
from = "texts"
each = { word = "regexp_extract_all(text, '[a-z]+')" }
where = "length(word) > 1"
key = "word"
select = "length(word)"
""")
    found = table(view.result(frame(session, [(None, b"an old silent a pond", START)])).collect())
    assert {key: int.from_bytes(value, "big") for key, value in found.items()} == {
        b"an": 2, b"old": 3, b"silent": 6, b"pond": 4,
    }  # fmt: skip


def test_points_have_an_entry_for_each_key_and_time(session: SparkSession) -> None:
    view = view_of(
        '[views.x.derive]\nfrom = "t"\nfields = { k = "string", n = "double", at = "time" }\n'
        'key = "k"\ntime = "at"\npoints = true\nselect = "n"'
    )
    given = [{"k": "a", "n": 1.5, "at": "2026-01-01T10:00:00Z"},
             {"k": "a", "n": 2.5, "at": "2026-01-01T10:00:01Z"},
             {"k": "a", "n": 0.5, "at": "2026-01-01T10:00:00Z"}]  # fmt: skip
    rows = view.result(frame(session, [raw(each, START) for each in given])).collect()
    assert {bytes(row["bare_key"]) for row in rows} == {b"a"}
    found = {
        int.from_bytes(key[1:-4], "big"): struct.unpack(">d", value)[0]
        for key, value in table(rows).items()
    }
    assert found == {START * 1000: 0.5, START * 1000 + 1000: 2.5}


CUSTOMERS: list[Raw] = [
    raw({"name": "Ann", "age": 20}, START, b"1"),
    raw({"name": "Bea", "age": 17}, START, b"2"),  # never passes `where`
    raw({"name": "Cem", "age": 30}, START, b"3"),
    raw({"name": "Dan", "age": 40}, START, b"4"),
    raw({"name": "Eve", "age": 50}, START, b"5"),
    (b"1", None, START),
    raw({"name": "Cem", "age": 17}, START, b"3"),  # no longer passes
    raw({"name": "Dan"}, START, b"4"),  # a dead letter changes nothing
    (None, None, START),
    raw({"name": "no key", "age": 60}, START),
    (b"\xff", None, START),
    raw({"name": "Eva", "age": 51}, START, b"5"),
    (b"6", None, START),  # never was there
]


def test_a_table_loses_rows_that_are_deleted_or_no_longer_pass(
    session: SparkSession, tmp_path: Path
) -> None:
    view = view_of(TABLE)
    found = table(view.result(frame(session, CUSTOMERS)).collect())
    assert {key: json.loads(value) for key, value in found.items()} == {
        b"4": {"name": "Dan", "age": 40},
        b"5": {"name": "Eva", "age": 51},
    }
    parts = [CUSTOMERS[:5], CUSTOMERS[5:7], CUSTOMERS[7:]]
    assert streamed(session, view, parts, tmp_path) == found
    assert reasons(session, view, CUSTOMERS) == [
        (7, "age: missing"), (8, "key: null"), (9, "key: null"), (10, "key: not UTF-8"),
    ]  # fmt: skip


def test_a_table_of_random_changes_equals_plain_python(session: SparkSession) -> None:
    view, random = view_of(TABLE), Random(5)
    expected: dict[bytes, object] = {}
    records: list[Raw] = []
    for _ in range(500):
        key, age = str(random.randrange(40)).encode(), random.randrange(36)
        row = {"name": f"n{random.randrange(9)}", "age": age}
        if random.random() < 0.2:
            records.append((key, None, START))
            expected.pop(key, None)
        else:
            records.append(raw(row, START, key))
            expected.pop(key, None)
            if age >= 18:
                expected[key] = row
    found = table(view.result(frame(session, records)).collect())
    assert {key: json.loads(value) for key, value in found.items()} == expected
    assert 5 < len(expected) < 40


def test_text_and_keys_that_follow_from_the_records_key(session: SparkSession) -> None:
    view = view_of("""\
[views.x.derive]
from = "notes"
kind = "table"
require = "text <> 'wrong'"
where = "text <> 'hidden'"
key = "concat('n', record_key)"
select = "text"
""")
    records: list[Raw] = [
        (b"1", b"one", START), (b"2", b"two", START), (b"3", b"three", START), (b"4", b"x", START),
        (b"1", b"hidden", START), (b"2", None, START), (b"3", b"wrong", START), (b"4", b"\xff", 0),
    ]  # fmt: skip
    found = table(view.result(frame(session, records)).collect())
    assert found == {b"n3": b"three", b"n4": b"x"}
    assert reasons(session, view, records) == [(6, "require: not true"), (7, "value: not UTF-8")]


def test_a_table_of_changes_follows_deletions(session: SparkSession) -> None:
    view = view_of(f"""\
[views.x.derive]
from = "customers"
kind = "table"
unwrap = "debezium"
{ROW_FIELDS}
key = "record_key"
select = "name"
""")
    records = [
        event("create", key=b"1"),
        event("create", key=b"2"),
        event("update", key=b"2"),
        event("create", key=b"3"),
        event("delete", key=b"1"),
        event("heartbeat", key=b"2"),
        event("transaction", key=b"3"),
    ]
    found = table(view.result(frame(session, records)).collect())
    assert found == {b"2": b"bea", b"3": b"anna"}
    assert reasons(session, view, records) == []


JOIN = """
[views.x.derive.join.maker]
from = "makers"
on = "id"
fields = { city = "string?" }
static = true
"""


@pytest.mark.parametrize("text", [MAP, TABLE, MAP + JOIN], ids=["map", "table", "join"])
def test_a_map_keeps_the_order_of_its_records(session: SparkSession, text: str) -> None:
    """It has neither state nor a shuffle, and the job writes moved keys again."""
    view = view_of(text)
    assert dependence(session, view) is Dependence.WRITES
    inputs = [frame(session, []) for _ in view.inputs]
    plan = view.result(*inputs)._jdf.queryExecution().executedPlan().toString()
    streamed_side = plan.split("BroadcastExchange")[0]
    assert "Exchange hashpartitioning" not in streamed_side
    assert "Sort" not in streamed_side


def test_a_long_value_is_a_dead_letter(session: SparkSession) -> None:
    view = view_of(
        '[views.x.derive]\nfrom = "t"\nfields = { a = "string" }\nkey = "record_offset"\n'
        'select = { a = "concat(a, a, a, a, a, a)" }'
    )
    records = [raw({"a": "a" * length}, START) for length in (83_000, 90_000)]
    assert reasons(session, view, records) == [(1, "select: more than 500000 bytes")]
    assert len(table(view.result(frame(session, records)).collect())) == 1
