"""The topic weblog: the proxy's access log, one JSON object per request."""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from spark.event_time.bounds import EARLINESS, LATENESS, EventTimeBounds
from spark.event_time.sessions import INT64_MAX
from spark.event_time.watermarks import NEVER
from spark.formats.batches import Fields
from spark.formats.decoders import JsonDecoder
from spark.formats.records import POSITION

REQUEST = StructType(
    [
        StructField("request_id", StringType(), nullable=False),
        StructField("client", StringType(), nullable=False),
        StructField("time", TimestampType(), nullable=False),
        StructField("bytes", LongType(), nullable=False),
    ]
)
"""The fields that the views use. ``bytes``: sent to the client, headers included."""

IDENTITY = ["request_id", "time", "client", "bytes"]
"""Lines that are equal in these fields are one request."""


def _validate(request: Fields) -> str | None:
    for name in ("request_id", "client"):
        if not request[name]:
            return f"{name}: missing"
    # Sums of greater numbers could overflow, and an overflow makes the query fail.
    if not 0 <= request["bytes"] < 2**40:
        return "bytes: not within 0 to 2^40"
    return None


WEBLOG = JsonDecoder(
    REQUEST, _validate, EventTimeBounds("time", LATENESS, EARLINESS), record=tuple(POSITION.names)
)


def total_bytes() -> Column:
    """The sum of ``bytes``; the greatest int64 is its limit."""
    # Wider than 64 bits, because an overflow would make the query fail.
    total = F.sum(F.col("bytes").cast("decimal(19,0)"))
    return F.least(total, F.lit(Decimal(INT64_MAX))).cast("long")


def deduplicated(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG`` without lines that were sent before.

    Lines that are too late or too early are malformed. So Spark can drop a line from its state as
    soon as the watermark excludes further well-formed lines with its time.
    """
    return requests.withWatermark("time", NEVER).dropDuplicates(IDENTITY)
