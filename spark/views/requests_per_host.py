"""requests-per-host: how many requests each client host has made.

Key: the client's address (string). Value: count, int64. See ``spark.requests`` for late and
duplicate lines.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.formats import int64
from spark.requests import each_once
from spark.schemas import WEBLOG
from spark.view import View


def requests_per_host(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG`` ► ``key``, ``value``, one row a host."""
    counted = each_once(requests).groupBy("client").count()
    return counted.select(F.col("client").alias("key"), int64(F.col("count")).alias("value"))


VIEW = View(
    name="requests-per-host",
    description="how many requests each client host has made",
    source="weblog",
    topic="requests-per-host",
    decoder=WEBLOG,
    derive=requests_per_host,
)
