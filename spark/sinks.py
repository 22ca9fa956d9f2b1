"""View topics and dead-letter topics as sinks. This module starts no queries.

Kafka's Java producer chooses a record's partition: murmur2 of its key (``murmur2`` in views.toml).
If times follow the key (windows, sessions), it is murmur2 of the bare key, as in Kafka Streams.
Only in that case the partition is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from model.dead_letters import (
    HEADER_BYTES,
    MAX_HEADERS_BYTES,
    MAX_KEY_BYTES,
    MAX_REASON,
    MAX_VALUE_BYTES,
    OWN_HEADER,
    SUFFIX,
)
from model.partitioner_numpy import partitions_of_batch
from spark.formats.placement import partition_of
from spark.formats.records import HEADERS
from spark.sources import Kafka

# Headers make a dead letter larger than its record. The topic sets the limit.
_MAX_REQUEST_BYTES = str(8 * 1024 * 1024)


def dead_letters(rejected: DataFrame, by: str) -> DataFrame:
    """MALFORMED rows ► ``topic``, and ``key``, ``value``, ``headers`` as ``model.dead_letters`` has
    them."""
    value, value_bytes = _bounded("value", MAX_VALUE_BYTES)
    key, key_bytes = _bounded("key", MAX_KEY_BYTES)
    record_headers, record_headers_bytes = _record_headers()
    headers = F.array(
        _header("reason", F.substring("reason", 1, MAX_REASON)),
        _header("source-topic", F.col("topic")),
        _header("source-partition", F.col("partition").cast("string")),
        _header("source-offset", F.col("offset").cast("string")),
        _header("source-timestamp", F.unix_millis("timestamp").cast("string")),
        _header("source-key", key),
        _header("source-key-bytes", key_bytes),
        _header("source-value-bytes", value_bytes),
        _header("source-headers-bytes", record_headers_bytes),
        _header("source-value", F.when(F.col("value").isNull(), "null")),
        _header("by", F.lit(by)),
    )
    return rejected.select(
        F.concat("topic", F.lit(SUFFIX)).alias("topic"),
        F.concat_ws(":", "topic", "partition", "offset").alias("key"),
        F.coalesce(value, F.lit(b"")).alias("value"),
        F.concat(
            F.filter(headers, lambda header: header["value"].isNotNull()), record_headers
        ).alias("headers"),
    )


def topic_writer(
    rows: DataFrame,
    topic: str | None,
    kafka: Kafka,
    *,
    partitions: int,
    query: str,
    checkpoint: str,
    output_mode: str = "update",
    on_written: Callable[[], None] | None = None,
    is_real_time: bool = False,
) -> DataStreamWriter:
    """An unstarted query that writes rows to a topic whenever they change. ``topic``: None if the
    rows have a column ``topic``.

    ``rows`` has ``key`` and ``value``, and may have ``headers`` or ``bare_key``. ``partitions`` is
    the topic's number of partitions. Delivery is at least once, per micro-batch; ``View`` explains
    why that is enough. The query's thread calls ``on_written`` after it has written a micro-batch.
    """
    options = _options(kafka, topic, is_real_time)
    writer = _partitioned(rows, partitions, is_real_time).writeStream
    if on_written is None:
        writer = writer.format("kafka").options(**options)
    else:
        writer = writer.foreachBatch(partial(_write, options=options, on_written=on_written))
    return writer.option("checkpointLocation", checkpoint).outputMode(output_mode).queryName(query)


def write_rows(rows: DataFrame, topic: str, kafka: Kafka, partitions: int) -> None:
    """Writes rows that are not a stream, like ``topic_writer``. Returns when the brokers have
    them."""
    batch = _partitioned(rows, partitions, False)
    batch.write.format("kafka").options(**_options(kafka, topic, False)).save()


def _options(kafka: Kafka, topic: str | None, is_real_time: bool) -> dict[str, str]:
    # In real-time mode each record is sent immediately.
    linger = "0" if is_real_time else "5"
    options = kafka.spark(max_request_size=_MAX_REQUEST_BYTES, linger_ms=linger)
    return options if topic is None else {**options, "topic": topic}


def _write(
    batch: DataFrame, _: int, options: Mapping[str, str], on_written: Callable[[], None]
) -> None:
    batch.write.format("kafka").options(**options).save()
    on_written()


def _partitioned(rows: DataFrame, partitions: int, is_real_time: bool) -> DataFrame:
    """Replaces the column ``bare_key``, if it exists, with ``partition``."""
    if "bare_key" not in rows.columns:
        return rows
    binary = [F.col(name).cast("binary") for name in ("key", "value", "bare_key")]
    if is_real_time:  # 40 µs a key, 100 times as slow as NumPy
        partition = partition_of(binary[2], partitions).alias("partition")
        return rows.select(*binary[:2], partition)
    compute = partial(_with_partitions, partitions=partitions)
    return rows.select(*binary).mapInArrow(compute, "key binary, value binary, partition int")


def _with_partitions(
    batches: Iterable[pa.RecordBatch], partitions: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        keys = batch.column("bare_key").to_pylist()
        numbers = partitions_of_batch("murmur2", keys, partitions)
        columns = [batch.column("key"), batch.column("value"), pa.array(numbers, pa.int32())]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "value", "partition"])


def _bounded(name: str, max_bytes: int) -> tuple[Column, Column]:
    """The first ``max_bytes`` bytes, and the length if it is greater (otherwise null)."""
    length = F.octet_length(name)
    return F.substring(name, 1, max_bytes), F.when(length > max_bytes, length.cast("string"))


def _record_headers() -> tuple[Column, Column]:
    """The headers of the record with their prefix. If they are too long: no headers, and their
    size."""
    headers = F.coalesce("headers", F.array().cast(HEADERS))
    size = F.aggregate(
        headers,
        F.lit(0),
        lambda total, header: (
            total
            + HEADER_BYTES
            + F.octet_length(header["key"])
            + F.coalesce(F.octet_length(header["value"]), F.lit(0))
        ),
    )
    prefixed = F.transform(
        headers,
        lambda header: F.struct(
            F.concat(F.lit(OWN_HEADER), header["key"]).alias("key"),
            header["value"].alias("value"),
        ),
    )
    is_long = size > MAX_HEADERS_BYTES
    return F.when(is_long, F.array().cast(HEADERS)).otherwise(prefixed), F.when(
        is_long, size.cast("string")
    )


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
