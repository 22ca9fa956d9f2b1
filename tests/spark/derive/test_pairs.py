"""Joins of two streams within a time: each pair once, in any order of reading."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark.formats.records import RAW_RECORD
from tests.spark.derive.support import START, Raw, frame, raw, view_of

VIEW = """\
[views.x.derive]
from = "orders"
fields = { id = "int", amount = "int" }
where = "amount > payment.sum"
key = "concat(id, '-', payment.number)"
select = { missing = "amount - payment.sum" }

[views.x.derive.join.payment]
from = "payments"
on = "id"
key = "order"
within = "1h"
time = "at"
fields = { order = "int", number = "int", sum = "int 0..100", at = "time s", note = "string?" }
"""


def records(seed: int) -> tuple[list[Raw], list[Raw]]:
    chance = random.Random(seed)
    orders = [
        raw({"id": n % 12, "amount": chance.randrange(120)}, START + chance.randrange(4) * 1800)
        for n in range(30)
    ]
    payments = []
    for number in range(40):
        at = START + chance.choice([0, 1800, 3600, 3601, 7200])
        line: dict[str, Any] = {"order": chance.randrange(14), "number": number, "at": at}
        line |= {"sum": chance.randrange(100), "note": "n" * (1001 if number == 7 else 3)}
        payments.append(raw(line, START + 7200))
    return orders, payments


def wanted(orders: list[Raw], payments: list[Raw]) -> dict[str, list[str]]:
    """Key ► the values of its pairs. Records of orders with one id are pairs with one key."""
    found: dict[str, list[str]] = {}
    for _, order_value, order_at in orders:
        order = json.loads(order_value or b"")
        for _, value, _ in payments:
            payment = json.loads(value or b"")
            is_pair = order["id"] == payment["order"] and abs(order_at - payment["at"]) <= 3600
            if is_pair and len(payment["note"]) < 1000 and order["amount"] > payment["sum"]:
                key = f"{order['id']}-{payment['number']}"
                missing = order["amount"] - payment["sum"]
                found.setdefault(key, []).append(f'{{"missing":{missing}}}')
    return found


def test_each_pair_is_written_once_in_any_order(session: SparkSession, tmp_path: Path) -> None:
    orders, payments = records(3)
    view, pairs = view_of(VIEW), wanted(orders, payments)
    assert view.output_mode == "append"
    assert len(pairs) > 9
    batch = view.result(frame(session, orders), frame(session, payments)).collect()
    assert sorted((row["key"], row["value"]) for row in batch) == sorted(
        (key, value) for key, values in pairs.items() for value in values
    )
    rejected = view.rejected(frame(session, orders), frame(session, payments)).collect()
    assert [row["offset"] for row in rejected] == [7]

    written: list[tuple[str, str]] = []
    for name, lines in (("orders", orders), ("payments", payments)):
        for number, (start, end) in enumerate(pairwise([0, 11, 20, len(lines)])):
            part = lines[start:end] if name == "orders" else lines[::-1][start:end]
            frame(session, part, 100 * number).coalesce(1).write.mode("append").parquet(
                f"{tmp_path}/{name}"
            )
    plans: list[str] = []
    for run in range(2):  # the second one reads nothing new
        streams = [
            session.readStream.schema(RAW_RECORD)
            .option("maxFilesPerTrigger", 1)
            .parquet(f"{tmp_path}/{name}")
            for name in ("orders", "payments")
        ]

        def write(rows: DataFrame, _: int) -> None:
            written.extend((row["key"], row["value"]) for row in rows.collect())

        query = (
            view.result(*streams)
            .writeStream.outputMode("append")
            .foreachBatch(write)
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
        if run == 0:
            execution = query._jsq.streamingQuery().lastExecution()
            plans.append(execution.executedPlan().toString())
    # the watermark frees the records of both sides
    assert "state cleanup [ left value predicate: (record_timestamp" in plans[0]
    assert "right value predicate: (#other time" in plans[0]
    assert sorted(written) == sorted((row["key"], row["value"]) for row in batch)
