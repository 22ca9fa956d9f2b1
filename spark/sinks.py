"""View topics and dead-letter topics as sinks. Nothing here starts a query.

Neither sink names a partition: Kafka's own Java producer chooses it by murmur2 of the key, which is
what ``murmur2`` of views.toml means.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

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
    rows: DataFrame, topic: str, kafka: Kafka, *, query: str, checkpoint: str
) -> DataStreamWriter:
    """An unstarted query that writes rows to a topic whenever they change.

    ``rows``: ``key`` and ``value``, and ``headers`` and ``partition`` where there are such columns.
    Delivery is at least once, per micro-batch; see ``View`` for why that is enough.
    """
    return (
        rows.writeStream.format("kafka")
        .options(**kafka.spark(max_request_size=_MAX_REQUEST_BYTES, linger_ms="5"))
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .outputMode("update")
        .queryName(query)
    )


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
