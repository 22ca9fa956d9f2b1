"""View topics and dead-letter topics as sinks. Nothing here starts a query.

A record's partition is that of murmur2 of its key, which is what ``murmur2`` of views.toml means:
Kafka's own Java producer chooses it. Where times follow a key (windows, sessions) it is that of the
bare key, as in Kafka Streams, and only then named here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from backend.core.partitioner_batch import partitions_of_batch
from spark.sources import Kafka

DEAD_LETTER_SUFFIX = ".dead-letter"
# A rejected record of the greatest size is greater with its headers; the topic sets the limit.
_MAX_REQUEST_BYTES = str(8 * 1024 * 1024)


def dead_letters(rejected: DataFrame, by: str) -> DataFrame:
    """MALFORMED rows ► ``key``, ``value``, ``headers``.

    The key is ``topic:partition:offset`` of the record, so one that is written twice stays one; the
    value is the record's own. Headers: reason, source-topic, source-partition, source-offset,
    source-key (its bytes, where it has one) and by; numbers are decimal text.
    """
    headers = F.array(
        _header("reason", F.col("reason")),
        _header("source-topic", F.col("topic")),
        _header("source-partition", F.col("partition").cast("string")),
        _header("source-offset", F.col("offset").cast("string")),
        _header("source-key", F.col("key")),
        _header("by", F.lit(by)),
    )
    return rejected.select(
        F.concat_ws(":", "topic", "partition", "offset").alias("key"),
        "value",
        F.filter(headers, lambda header: header["value"].isNotNull()).alias("headers"),
    )


def topic_writer(
    rows: DataFrame, topic: str, kafka: Kafka, *, partitions: int, query: str, checkpoint: str
) -> DataStreamWriter:
    """An unstarted query that writes rows to a topic whenever they change.

    ``rows``: ``key`` and ``value``, and ``headers`` or ``bare_key`` where there are such columns;
    the topic has so many ``partitions``. Delivery is at least once, per micro-batch; see ``View``
    for why that is enough.
    """
    return (
        _placed(rows, partitions)
        .writeStream.format("kafka")
        .options(**kafka.spark(max_request_size=_MAX_REQUEST_BYTES, linger_ms="5"))
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .outputMode("update")
        .queryName(query)
    )


def _placed(rows: DataFrame, partitions: int) -> DataFrame:
    """``partition`` in place of ``bare_key``, where there is that."""
    if "bare_key" not in rows.columns:
        return rows
    binary = [F.col(name).cast("binary") for name in ("key", "value", "bare_key")]
    place = partial(_with_partitions, partitions=partitions)
    return rows.select(*binary).mapInArrow(place, "key binary, value binary, partition int")


def _with_partitions(
    batches: Iterable[pa.RecordBatch], partitions: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        keys = batch.column("bare_key").to_pylist()
        numbers = partitions_of_batch("murmur2", keys, partitions)
        columns = [batch.column("key"), batch.column("value"), pa.array(numbers, pa.int32())]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "value", "partition"])


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
