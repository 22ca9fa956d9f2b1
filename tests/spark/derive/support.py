"""Derived views in tests: from the text of a views.toml, over records in one topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from model.views_file import parse_views
from spark.derive.views import derived_view
from spark.formats.records import RAW_RECORD
from spark.view import View

START = 1_767_261_600  # 2026-01-01 10:00

Raw = tuple[bytes | None, bytes | None, int]
"""Key, value, and timestamp in seconds since 1970."""


def view_of(text: str) -> View:
    """The only view of a views.toml."""
    [entry] = parse_views(text).views
    view = derived_view(entry)
    assert view is not None
    return view


def raw(line: dict[str, Any], at: int, key: bytes | None = None) -> Raw:
    return key, json.dumps(line).encode(), at


def frame(session: SparkSession, records: Sequence[Raw], first: int = 0) -> DataFrame:
    """Rows like those that Spark reads from a topic with one partition; ``first``: the offset of
    the first one."""
    rows = [
        ("raw", 0, offset, datetime.fromtimestamp(at, UTC), key, value, None)
        for offset, (key, value, at) in enumerate(records, first)
    ]
    return session.createDataFrame(rows, RAW_RECORD)


def table(rows: Iterable[Any]) -> dict[bytes, bytes]:
    """What is left after compaction: key ► value."""
    found: dict[bytes, bytes] = {}
    for row in rows:
        key, value = as_bytes(row["key"]), row["value"]
        if value is None:
            found.pop(key, None)
        else:
            found[key] = as_bytes(value)
    return found


def as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def collected(results: Sequence[DataFrame]) -> list[list[Row]]:
    """The rows of each result, with ``key``, ``value`` and ``bare_key`` as bytes. One job computes
    all of them, which takes half the time."""

    def row(number: int, rows: DataFrame) -> DataFrame:
        bare = F.col("bare_key") if "bare_key" in rows.columns else F.lit(None)
        columns = {"key": F.col("key"), "value": F.col("value"), "bare_key": bare}
        binary = [of.cast("binary").alias(name) for name, of in columns.items()]
        return rows.select(F.lit(number).alias("result"), *binary)

    together = reduce(DataFrame.union, (row(*each) for each in enumerate(results)))
    found: list[list[Row]] = [[] for _ in results]
    for each in together.collect():
        found[each["result"]].append(each)
    return found


def streamed(
    session: SparkSession,
    view: View,
    batches: Sequence[Sequence[Raw]],
    folder: Path,
    *tables: DataFrame,
) -> dict[bytes, bytes]:
    """The table after a stream over these micro-batches. The job is stopped and started again
    before each of them."""
    found: dict[bytes, bytes | None] = {}
    first = 0

    def write(rows: DataFrame, _: int) -> None:
        for row in rows.collect():
            value = row["value"]
            found[as_bytes(row["key"])] = None if value is None else as_bytes(value)

    for batch in batches:
        frame(session, batch, first).coalesce(1).write.mode("append").parquet(f"{folder}/raw")
        first += len(batch)
        records = session.readStream.schema(RAW_RECORD).parquet(f"{folder}/raw")
        query = (
            view.result(records, *tables)
            .writeStream.outputMode("update")
            .foreachBatch(write)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    return {key: value for key, value in found.items() if value is not None}
