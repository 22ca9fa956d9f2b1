"""Every view and its dead letters, with the oddest records that a topic can have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark.formats.records import RAW_RECORD
from spark.sinks import dead_letters
from spark.views import VIEWS
from tests.support.spark.examples import FLIGHT, flight, request
from tests.support.spark.logs import TEN

Record = tuple[int, bytes | None, bytes | None]
"""Timestamp in microseconds, key and value."""

AT = 1_000_000 * TEN
TIMESTAMPS = st.sampled_from([AT, AT, AT, -1000, 0, 2**63 - 1000, -(2**62), AT + 10**17])
TIMES = st.sampled_from(
    [
        "2026-01-01T10:00:00+00:00", "2026-01-01T10:59:59Z", "2026-01-01T09:00:00Z",
        "0001-01-01T00:00:00+00:00", "0001-01-01T00:00:00+18:00", "1582-10-10T00:00:00Z",
        "1970-01-01T00:00:00Z", "2262-04-11T23:47:17Z", "9999-01-01T00:00:00+00:00",
        "9999-12-31T23:59:59-18:00", "2099-01-01T00:00:00Z",
    ]
)  # fmt: skip
NUMBERS = st.sampled_from(
    [
        0,
        1,
        -1,
        59,
        60,
        2**31 - 1,
        -(2**31),
        2**31,
        2**40 - 1,
        2**63 - 1,
        -(2**63),
        2**64,
        1e308,
        0.5,
    ]
)
TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(["", "\0", "\ufffe", "é" * 600, "'" * 99]))
ODD = st.one_of(st.none(), NUMBERS, TEXTS, TIMES, st.just([]), st.just({"a": [{}]}))


def changed(example: dict[str, Any], times: Sequence[str]) -> st.SearchStrategy[bytes]:
    """The example with some fields replaced, by odd values of their type or of any type."""
    fields = {
        name: st.one_of(TIMES if name in times else NUMBERS if type(value) is int else TEXTS, ODD)
        for name, value in example.items()
    }
    changes = st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: fields[name] for name in names})
    )
    return changes.map(lambda change: json.dumps({**example, **change}).encode())


BYTES = st.one_of(
    st.none(),
    st.binary(max_size=9),
    st.sampled_from([b"[" * 5000, b'{"a":' * 5000, b"1" * 5000, b'{"a":1e999}', b"\xff word",
                     b"x" * 300_000, "Ⅷ İ ß".encode(), b"a " * 50_000, b"NaN", b'{"time":NaN}']),
)  # fmt: skip
VALUES = st.one_of(
    changed(FLIGHT, ["time_hour"]),
    changed(json.loads(request(1, "10:00:00")[1]), ["time"]),
    BYTES,
)
RECORDS = st.tuples(TIMESTAMPS, st.one_of(st.none(), st.binary(max_size=9)), VALUES)

# The greatest numbers of each kind, and a line of the year 9999.
KNOWN: list[Record] = [
    *((AT, b"k", request(n, "10:00:00", bytes=2**40 - 1)[1]) for n in range(3)),
    *((AT, b"k", flight(time_hour=time, dep_delay=delay)[1])
      for time in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
      for delay in (2**31 - 1, -(2**31))),
    (AT, b"k", request(1, "10:00:00")[1].replace(b"2026-01-01T10", b"9999-01-01T00")),
]  # fmt: skip


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def write(records: Sequence[Record], folder: Path) -> None:
    """As a file that Spark reads as RAW_RECORD."""
    timestamps, keys, values = zip(*records, strict=True)
    columns = {
        "topic": pa.array(["raw"] * len(records)),
        "partition": pa.array([0] * len(records), pa.int32()),
        "offset": pa.array(range(len(records)), pa.int64()),
        "timestamp": pa.array(timestamps, pa.timestamp("us", tz="UTC")),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array([None] * len(records), HEADERS),
    }
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "records.parquet")


def odd_records() -> list[Record]:
    """Of several examples: Hypothesis's first one is always the simplest."""
    found: list[Record] = []

    @settings(
        max_examples=3,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(RECORDS, min_size=150, max_size=300))
    def collect(records: list[Record]) -> None:
        found.extend(records)

    collect()
    return found


def test_no_record_ends_a_query(session: SparkSession, tmp_path: Path) -> None:
    write([*KNOWN, *odd_records()], tmp_path / "records")
    rows = session.readStream.schema(RAW_RECORD).parquet(str(tmp_path / "records"))
    results = {view.name: view.result(*[rows] * len(view.inputs)) for view in VIEWS.values()}
    # views with the same decoders have the same dead letters
    by_decoders = {tuple(id(each.decoder) for each in v.inputs): v for v in VIEWS.values()}
    for view in by_decoders.values():
        rejected = view.rejected(*[rows] * len(view.inputs))
        results[f"{view.name}-rejected"] = dead_letters(rejected, by="test")
    for name, result in results.items():
        writer = result.writeStream.format("noop").outputMode("update")
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120), name
        assert query.exception() is None, name
