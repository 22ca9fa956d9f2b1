"""The columns of the Kafka records that ``spark.sources`` reads."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
"""Null if a record has no headers."""

RAW_RECORD = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
    ]
)

RECORD = StructType(
    [RAW_RECORD[name] for name in ("key", "timestamp", "headers", "partition", "offset")]
)
"""What a view may use of a record, besides its value."""

POSITION = StructType([RAW_RECORD[name] for name in ("timestamp", "partition", "offset")])
"""Unique for each record of a topic. The record with the greatest position is the newest."""

DELETED = StructField("deleted", BooleanType(), nullable=False)
"""In rows of a table: whether the record is a tombstone."""

MALFORMED = StructType([*RAW_RECORD, StructField("reason", StringType(), nullable=False)])
"""A record that a decoder rejected, with the reason."""
