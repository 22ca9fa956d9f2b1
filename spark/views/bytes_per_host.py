"""bytes-per-host: how many bytes were sent to each client host, headers included.

Key: the client's address (string). Value: sum, int64; the greatest int64 is its limit. See
``spark.raw_topics.weblog`` for late and duplicate lines.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.formats.keys import int64
from spark.raw_topics.weblog import WEBLOG, deduplicated, total_bytes
from spark.view import View


def bytes_per_host(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG`` ► ``key``, ``value``, one row per host."""
    summed = deduplicated(requests).groupBy("client").agg(total_bytes().alias("bytes"))
    return summed.select(F.col("client").alias("key"), int64(F.col("bytes")).alias("value"))


VIEW = View(
    name="bytes-per-host",
    description="how many bytes were sent to each client host",
    source="weblog",
    topic="bytes-per-host",
    decoder=WEBLOG,
    derive=bytes_per_host,
    revision=1,
)
