"""docs/spark/compared-with-sql.md: the views have the results of the SQL statements, in SQLite."""

from __future__ import annotations

import json
import re
import sqlite3
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from model.derive.evaluation.evaluate import Evaluation, evaluate
from model.derive.evaluation.records import Record
from model.views import View
from model.views_file import parse_views
from tests.support.docs_examples import BLOCK, ROOT

PAGE = (ROOT / "docs" / "spark" / "compared-with-sql.md").read_text()
SECTIONS = {
    section.splitlines()[0]: [text for _, text in BLOCK.findall(section)]
    for section in re.split(r"^## ", PAGE, flags=re.M)
    if BLOCK.search(section)
}
VIEWS = parse_views("".join(blocks[0] for blocks in SECTIONS.values())).views
FLINK = dict(re.findall(r"^INSERT INTO (\w+)\n(.*?);$", PAGE, re.M | re.S))
KSQLDB = dict(re.findall(r"^CREATE TABLE (\w+) AS\n(.*?) EMIT CHANGES;$", PAGE, re.M | re.S))
ONLY_FLINK = {
    "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '1' MINUTE))": "tumbled",
    "ON CONFLICT DO DEDUPLICATE": "",  # each order has a key of its own
}
ONLY_KSQLDB = ("LATEST_BY_OFFSET", "WINDOW TUMBLING")
AMOUNTS = {"price", "amount", "total"}

# Cents, because fractions are not exact in SQLite: the total of anna has 3 * 0.1 and 0.2.
ORDERS = [
    ("o1", "anna", "paid", 3, 10, "2026-01-01T10:00:30Z"),
    ("o2", "anna", "open", 1, 999, "2026-01-01T10:02:00Z"),
    ("o3", "anna", "paid", 1, 20, "2026-01-01T10:01:59Z"),
    ("o4", "bert", "paid", 1, 1_000_000_000_01, "2026-01-01T09:01:00Z"),  # late
    ("o5", "carl", "paid", 7, 500, "2024-02-29T23:59:59Z"),  # of an import
    ("o6", "dora", "open", 1, 100, "2026-01-01T10:01:01Z"),  # there is no such customer
]
CUSTOMERS: list[tuple[str, dict[str, str] | None]] = [
    ("anna", {"name": "Anna", "city": "Ulm"}),
    ("bert", {"name": "Bert", "city": "Kiel"}),
    ("carl", {"name": "Carl", "city": "Bonn"}),
    ("anna", {"name": "Anna", "city": "Kiel"}),
    ("bert", None),
]
MALFORMED = [b"{", b'{"order_id":"o7","customer_id":"anna","status":"paid","qty":1}']


def milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def order_records() -> list[Record]:
    names = ("order_id", "customer_id", "status", "qty", "price", "ordered_at")
    values = [
        json.dumps({**dict(zip(names, order, strict=True)), "price": order[4] / 100}).encode()
        for order in ORDERS
    ]
    written = milliseconds("2026-01-01T10:03:00Z")
    return [Record(value, timestamp=written) for value in [*values, *MALFORMED]]


def evaluated(view: View) -> Evaluation:
    customers = [
        Record(None if row is None else json.dumps(row).encode(), key.encode())
        for key, row in CUSTOMERS
    ]
    assert view.derivation is not None
    tables = {join.name: customers for join in view.derivation.joins}
    return evaluate(view, order_records(), tables)


@pytest.fixture
def database() -> sqlite3.Connection:
    """The topics as tables: all orders, and the last row of each customer."""
    topics = sqlite3.connect(":memory:")
    topics.row_factory = sqlite3.Row
    topics.executescript("""
        CREATE TABLE orders (order_id, customer_id, status, qty, price, ordered_at);
        CREATE TABLE customers (customer_id PRIMARY KEY, name, city);
        CREATE VIEW order_rows AS SELECT order_id AS id, * FROM orders;
        CREATE VIEW tumbled AS SELECT *, ordered_at - ordered_at % 60000 AS window_start,
            ordered_at - ordered_at % 60000 + 60000 AS window_end FROM orders;
    """)
    topics.executemany(
        "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)",
        [(*order[:5], milliseconds(order[5])) for order in ORDERS],
    )
    for key, row in CUSTOMERS:
        topics.execute("DELETE FROM customers WHERE customer_id = ?", [key])
        if row is not None:
            topics.execute("INSERT INTO customers VALUES (?, ?, ?)", [key, *row.values()])
    return topics


def entries(database: sqlite3.Connection, statement: str) -> dict[Any, Any]:
    """Key, with the start of its window ► value, which leaves out nulls."""
    for text, replacement in ONLY_FLINK.items():
        statement = statement.replace(text, replacement)
    result = {}
    for row in database.execute(statement):
        value = {
            name: Decimal(row[name]).scaleb(-2) if name in AMOUNTS else row[name]
            for name in row.keys()  # noqa: SIM118 (a row is no mapping)
            if row[name] is not None
        }
        key = value.pop(next(iter(value)))
        result[key, value.pop("window_start", None)] = value
    return result


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_has_the_results_of_the_statements(view: View, database: sqlite3.Connection) -> None:
    computed = {
        (entry["key"], entry.get("start")): (
            {"order_count": entry["value"]} if "start" in entry else entry["value"]
        )
        for entry in evaluated(view).entries
    }
    name = view.name.replace("-", "_")
    assert computed == entries(database, FLINK[name])
    assert len(computed) >= 3
    if not any(word in KSQLDB[name] for word in ONLY_KSQLDB):
        assert computed == entries(database, KSQLDB[name])


def test_malformed_orders_are_dead_letters() -> None:
    for view in VIEWS:
        letters = evaluated(view).dead_letters
        assert [letter.number for letter in letters] == [len(ORDERS) + 1, len(ORDERS) + 2]
        assert letters[1].reason == "price: missing"


def test_sums_are_exact() -> None:
    [view] = [view for view in VIEWS if view.name == "spent"]
    assert evaluated(view).values["anna"] == {"items": 4, "total": Decimal("0.50")}


def test_each_section_has_a_view_in_ksqldb_and_in_flink() -> None:
    _, *blocks = SECTIONS.values()
    names = [view.name.replace("-", "_") for view in VIEWS]
    assert len(names) == 5
    for name, (_, ksqldb, flink) in zip(names, blocks, strict=True):
        assert f"CREATE TABLE {name} AS\n" in ksqldb
        assert f"INSERT INTO {name}\n" in flink


def test_the_lines_are_counted() -> None:
    counted = {
        section: [sum(map(bool, block.split("\n"))) for block in blocks]
        for section, blocks in SECTIONS.items()
    }
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.M)
    assert {section: list(map(int, numbers)) for section, *numbers in rows} == counted
