"""The records of moved keys, in order: functions of DataFrames that are not streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from model.partitioner_numpy import partitions_of_batch
from spark.formats.records import RAW_RECORD

_PARTITIONERS = "murmur2", "crc32"
"""The defaults of Java's client and of librdkafka."""

# not the names of columns of records or rows
_AT, _HOME, _NUMBER = "#at", "#home", "#number"


def moved_keys(records: DataFrame) -> DataFrame:
    """The keys with records in several partitions: ``key``, and the ``first`` and the ``last`` of
    these partitions."""
    bounds = F.min("partition").alias("first"), F.max("partition").alias("last")
    keyed = records.where("key IS NOT NULL")
    return keyed.groupBy("key").agg(*bounds).where("first < last")


def with_homes(keys: DataFrame, partitions: int) -> DataFrame:
    """Adds to ``moved_keys`` the partition that each partitioner chooses for a key, in a topic with
    this number of partitions."""
    columns = ", ".join(f"{name} int" for name in _PARTITIONERS)
    compute = partial(_with_homes, partitions=partitions)
    return keys.mapInArrow(compute, f"key binary, first int, last int, {columns}")


class MovedKeyCount(NamedTuple):
    """The number of moved keys, and the partitioner that has chosen the partitions of most."""

    keys: int
    partitioner: str


def count_moved_keys(keys: DataFrame) -> MovedKeyCount:
    """Counts moved keys. ``keys``: the result of ``with_homes``."""
    agreeing = [
        F.count_if(F.col(name).isin(F.col("first"), F.col("last"))).alias(name)
        for name in _PARTITIONERS
    ]
    [counts] = keys.agg(F.count(F.lit(1)).alias("keys"), *agreeing).collect()
    return MovedKeyCount(counts["keys"], max(_PARTITIONERS, key=lambda name: counts[name]))


def in_order(records: DataFrame, keys: DataFrame, partitioner: str) -> DataFrame:
    """The records of these keys (``with_homes``), in order. All records of a key are in one task.
    They are ordered by timestamp, but records of one partition stay in the order of their offsets.
    Of two records with the same timestamp, the one in the key's current partition is the later one.
    """
    offsets = Window.partitionBy("key", "partition").orderBy("offset")
    order = {
        _AT: F.max("timestamp").over(offsets),
        _HOME: F.col("partition") == F.col(partitioner),
    }
    return (
        records.join(keys.select("key", partitioner), "key")
        .withColumns({name: order[name] for name in order})
        .repartition("key")
        .sortWithinPartitions(_AT, _HOME, "partition", "offset")
        .select(*RAW_RECORD.names)
    )


def newest_rows(rows: DataFrame) -> DataFrame:
    """The last row of each ``key``, with the same columns. In ``rows``, all rows of a key are in
    one task, and in order."""
    columns = [name for name in rows.columns if name != "key"]
    last = F.max_by(F.struct(*columns), _NUMBER).alias("row")
    numbered = rows.withColumn(_NUMBER, F.monotonically_increasing_id())
    return numbered.groupBy("key").agg(last).select("key", "row.*")


def _with_homes(batches: Iterable[pa.RecordBatch], partitions: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        keys = batch.column("key").to_pylist()
        homes = [
            pa.array(partitions_of_batch(name, keys, partitions), pa.int32())
            for name in _PARTITIONERS
        ]
        names = [*batch.schema.names, *_PARTITIONERS]
        yield pa.RecordBatch.from_arrays([*batch.columns, *homes], names=names)
