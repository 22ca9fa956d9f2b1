"""Aggregates of tables: after any changes and deletions, those of the final rows."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.derive.support import START, Raw, frame, raw, streamed, table, view_of

VIEW = """\
[views.x.derive]
from = "orders"
kind = "table"
fields = { customer = "string?", amount = "long", price = "decimal(2)?" }
where = "customer is not null and amount <> 3"
key = "customer"
count = { orders = true, large = "amount > 5" }
sum = { amount = "amount", price = "price" }
avg = { mean = "price" }
"""


def orders(seed: int) -> list[Raw]:
    chance = random.Random(seed)
    records: list[Raw] = []
    for _ in range(120):
        key = f"o{chance.randrange(12)}".encode()
        if chance.random() < 0.3:
            records.append((key, None, START))
            continue
        row = {"customer": chance.choice(["a", "b", "c", None]), "amount": chance.randrange(10)}
        price = chance.choice([None, 0.1, 12.35, -7])
        records.append(raw({**row, "price": price, "n": len(records)}, START, key))
    records.append((b"o1", b"malformed", START))
    return records


def wanted(records: list[Raw]) -> dict[str, dict[str, Any]]:
    final: dict[bytes | None, dict[str, Any] | None] = {}
    for key, value, _ in records:
        if value != b"malformed":
            final[key] = None if value is None else json.loads(value)
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in final.values():
        if row is not None and row["customer"] is not None and row["amount"] != 3:
            groups[row["customer"]].append(row)
    found = {}
    for customer, rows in groups.items():
        prices = [Decimal(str(row["price"])) for row in rows if row["price"] is not None]
        value: dict[str, Any] = {
            "orders": len(rows),
            "large": sum(row["amount"] > 5 for row in rows),
            "amount": sum(row["amount"] for row in rows),
            "price": float(sum(prices)),
        }
        found[customer] = value | ({"mean": float(sum(prices)) / len(prices)} if prices else {})
    return found


def test_rows_that_change_or_are_deleted_are_taken_back(
    session: SparkSession, tmp_path: Path
) -> None:
    view, records = view_of(VIEW), orders(4)
    end = wanted(records)
    assert len(end) > 1
    gone = [(f"o{number}".encode(), None, START) for number in range(12)]
    found = {
        key.decode(): json.loads(value)
        for key, value in table(view.result(frame(session, records)).collect()).items()
    }
    assert found == end
    parts = [records[:50], records[50:], gone[:11]]
    stream = streamed(session, view, parts, tmp_path)
    assert {key.decode(): json.loads(value) for key, value in stream.items()} == wanted(
        [*records, *gone[:11]]
    )
