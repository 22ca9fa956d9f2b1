"""requests-per-minute: how many requests each client host has made in each minute.

Key: the client's address and the start of the minute, in Kafka Streams' window layout. Value:
count, int64. The time of the request determines the minute, not the time when its line arrived. See
``deduplicated`` for late and duplicate lines.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.formats.keys import int64, window_key
from spark.raw_topics.weblog import WEBLOG, deduplicated
from spark.view import View


def requests_per_minute(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG`` ► ``key``, ``value``, ``bare_key``, one row per window."""
    minute = F.window("time", "1 minute")
    counted = deduplicated(requests).groupBy(minute, "client").count()
    return counted.select(
        window_key(F.col("client"), F.unix_millis("window.start")).alias("key"),
        int64(F.col("count")).alias("value"),
        F.col("client").alias("bare_key"),
    )


VIEW = View(
    name="requests-per-minute",
    description="how many requests each client host has made in each minute",
    source="weblog",
    topic="requests-per-minute",
    decoder=WEBLOG,
    derive=requests_per_minute,
    revision=1,
)
