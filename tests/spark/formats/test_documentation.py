"""The examples of docs/spark/records.md."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from local.settings import REPOSITORY
from spark.formats import registry as settings_of_registry
from spark.formats.records import RAW_RECORD
from tests.support.in_process.avro_examples import ORDER, binary, framed, registry
from tests.support.in_process.protobuf_examples import DESCRIPTORS, key

PAGE = REPOSITORY / "docs" / "spark" / "records.md"
TOTAL = {"type": "record", "name": "Total", "fields": [{"name": "total", "type": "double"}]}
CUSTOMER = StructType([StructField("city", StringType()), StructField("credit", LongType())])


def test_the_examples_run(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "total.avsc").write_text(json.dumps(TOTAL))
    # the page has payments, the set has keys
    (tmp_path / "shop.desc").write_bytes(DESCRIPTORS)
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 4
    names: dict[str, Any] = {"__file__": str(tmp_path / "view.py"), "CUSTOMER": CUSTOMER}

    def run(block: str) -> None:
        exec(compile(block.replace("shop.Payment", "shop.Key"), str(PAGE), "exec"), names)

    def rows(decoder: str, *records: tuple[bytes, bytes | None]) -> Any:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        raw = [("raw", 0, offset, at, *each, None) for offset, each in enumerate(records)]
        return names[decoder].well_formed(session.createDataFrame(raw, RAW_RECORD))

    run(blocks[0])
    order = {"id": 7, "price": 2.5}
    assert [row["id"] for row in rows("ORDERS", (b"k", binary(ORDER, order))).collect()] == [7]
    assert [row["id"] for row in rows("PAYMENTS", (b"k", key(5))).collect()] == [5]
    run(blocks[1])
    run(blocks[2])
    with registry() as running:
        running.add(1, ORDER)
        session.conf.set(settings_of_registry.URL, running.url)
        session.conf.set(settings_of_registry.MISSING_AFTER, "0")
        decoded = rows("ORDERS", (b"k", framed(1, ORDER, order)), (b"k", framed(1, ORDER, order)))
        totals = names["totals"](decoded.withColumn("customer", F.lit("a"))).collect()
        session.conf.unset(settings_of_registry.URL)
        session.conf.unset(settings_of_registry.MISSING_AFTER)
        [schema_id] = [
            document["id"] for path, (_, document) in running.answers.items() if "subjects" in path
        ]
    found = [(row["key"], bytes(row["value"])) for row in totals]
    assert found == [("a", framed(schema_id, TOTAL, {"total": 5.0}))]
    run(blocks[3])
    customers = [(b"a", b'{"city":"Rome","credit":1}'), (b"b", b'{"city":"Rome"}'), (b"b", None)]
    found_rows = rows("CUSTOMERS", *customers)
    assert [tuple(row) for row in names["cities"](found_rows).collect()] == [
        ("Rome", '{"count":1}')
    ]
    kept = {bytes(row["key"]): row["value"] for row in names["customers"](found_rows).collect()}
    assert kept == {b"a": '{"city":"Rome","credit":1}', b"b": None}
