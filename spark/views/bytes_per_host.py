"""bytes-per-host: how many bytes were sent to each client host, headers included.

Key: the client's address (string). Value: sum, int64 (what is more stays at the greatest). See
``spark.requests`` for late and duplicate lines.
"""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.formats import int64
from spark.requests import each_once
from spark.schemas import WEBLOG
from spark.sessions import MOST
from spark.view import View


def bytes_per_host(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG`` ► ``key``, ``value``, one row a host."""
    # Wider than 64 bits: a sum that overflows would stop the query.
    total = F.least(F.sum(F.col("bytes").cast("decimal(19,0)")), F.lit(Decimal(MOST)))
    summed = each_once(requests).groupBy("client").agg(total.cast("long").alias("bytes"))
    return summed.select(F.col("client").alias("key"), int64(F.col("bytes")).alias("value"))


VIEW = View(
    name="bytes-per-host",
    description="how many bytes were sent to each client host",
    source="weblog",
    topic="bytes-per-host",
    decoder=WEBLOG,
    derive=bytes_per_host,
)
