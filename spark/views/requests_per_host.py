"""requests-per-host: how many requests each client host has made.

Key: the client's address (string). Value: count, int64. See ``deduplicated`` for late and
duplicate lines.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.formats.keys import int64
from spark.raw_topics.weblog import WEBLOG, deduplicated
from spark.view import View


def requests_per_host(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG`` ► ``key``, ``value``, one row per host."""
    counted = deduplicated(requests).groupBy("client").count()
    return counted.select(F.col("client").alias("key"), int64(F.col("count")).alias("value"))


VIEW = View(
    name="requests-per-host",
    description="how many requests each client host has made",
    source="weblog",
    topic="requests-per-host",
    decoder=WEBLOG,
    derive=requests_per_host,
    revision=1,
)
