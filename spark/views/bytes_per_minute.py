"""bytes-per-minute: how many bytes were sent to each client host in each minute, headers included.

Key: the client's address and the start of the minute, in Kafka Streams' window layout. Value: sum,
int64; the greatest int64 is its limit. The time of the request determines the minute. See
``deduplicated`` for late and duplicate lines.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.formats.keys import int64, window_key
from spark.raw_topics.weblog import WEBLOG, deduplicated, total_bytes
from spark.view import View


def bytes_per_minute(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG`` ► ``key``, ``value``, ``bare_key``, one row per window."""
    minute = F.window("time", "1 minute")
    summed = deduplicated(requests).groupBy(minute, "client").agg(total_bytes().alias("bytes"))
    return summed.select(
        window_key(F.col("client"), F.unix_millis("window.start")).alias("key"),
        int64(F.col("bytes")).alias("value"),
        F.col("client").alias("bare_key"),
    )


VIEW = View(
    name="bytes-per-minute",
    description="how many bytes were sent to each client host in each minute",
    source="weblog",
    topic="bytes-per-minute",
    decoder=WEBLOG,
    derive=bytes_per_minute,
    revision=1,
)
