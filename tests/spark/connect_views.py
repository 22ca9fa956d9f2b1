"""Derives the views as a client of Spark Connect: see views/test_connect.py.

Argument: the server, such as sc://127.0.0.1:15002. Reads (key, value) pairs of some views, by view
and source, as JSON from standard input (bytes as hexadecimal digits), and prints the derived rows
in the same way. The server analyses the streams of all views.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark.formats.records import RAW_RECORD
from spark.views import VIEWS

AT = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)
Row = dict[str, str | None]


def in_hex(row: dict[str, Any]) -> Row:
    """The bytes of texts and binary values as hexadecimal digits."""
    texts = {name: value.encode() for name, value in row.items() if isinstance(value, str)}
    return {
        name: None if value is None else bytes(value).hex() for name, value in (row | texts).items()
    }


def main(server: str) -> None:
    session = SparkSession.builder.remote(server).getOrCreate()
    session.conf.set("spark.sql.shuffle.partitions", "1")

    def derived(name: str, sources: list[list[list[str | None]]]) -> list[Row]:
        tables = []
        for source in sources:
            pairs = [[each and bytes.fromhex(each) for each in pair] for pair in source]
            rows = [("raw", 0, offset, AT, *pair, None) for offset, pair in enumerate(pairs)]
            tables.append(session.createDataFrame(rows, RAW_RECORD))
        return [in_hex(row.asDict()) for row in VIEWS[name].result(*tables).collect()]

    given = json.load(sys.stdin)
    found = {name: derived(name, sources) for name, sources in given.items()}
    with tempfile.TemporaryDirectory() as empty:  # the server lists its files
        stream = session.readStream.schema(RAW_RECORD).format("parquet").load(empty)
        for name, view in VIEWS.items():
            columns = view.result(*[stream] * len(view.inputs)).columns
            assert columns[:2] == ["key", "value"], name
    assert SparkContext._gateway is None, "a function has started a JVM"
    print(json.dumps(found))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
