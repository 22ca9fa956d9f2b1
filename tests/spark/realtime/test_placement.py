"""Kafka's partition of a key as an expression of Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from model.partitioner import partition_of as reference
from spark.formats.placement import partition_of
from tests.vectors.partitions import vectors


def test_vectors_of_the_java_client(session: SparkSession) -> None:
    counts, keys, expected = vectors("murmur2")
    chosen = [(key, row) for key, row in zip(keys, expected, strict=True) if len(key) <= 200]
    edges = [b"", b"\0" * 5, b"\xff" * 7, bytes(range(256))]
    of = reference("murmur2")
    chosen += [(key, [of(key, count) for count in counts]) for key in edges]
    # Most keys are short; every eighth of them is enough for each length.
    chosen = [pair for number, pair in enumerate(chosen) if number % 8 == 0 or len(pair[0]) > 12]
    rows = session.createDataFrame([(n, bytearray(key)) for n, (key, _) in enumerate(chosen)])
    rows = rows.toDF("n", "key").coalesce(1)
    columns = [partition_of(F.col("key"), count).alias(f"p{count}") for count in counts]
    found = rows.select("n", *columns).orderBy("n").collect()
    assert [list(row)[1:] for row in found] == [list(row) for _, row in chosen]


def test_a_null_key_has_no_partition(session: SparkSession) -> None:
    [row] = session.range(1).select(partition_of(F.lit(None).cast("binary"), 3)).collect()
    assert row[0] is None
