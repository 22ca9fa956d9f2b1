"""airports: how many flights left for each destination.

Key: destination (string). Value: JSON ``{"count": 17283}``, so that ``top?by=count`` ranks them.

A flight is one by its number, origin and scheduled time: a record of it that comes again, however
late, counts no more. For that the state holds what makes every flight one, for good: no watermark
bounds it, for a topic of past flights is read with its partitions days apart. Cancelled flights did
not leave.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.departed import departed
from spark.schemas import FLIGHTS
from spark.view import View


def airports(flights: DataFrame) -> DataFrame:
    """Well-formed rows of ``FLIGHTS`` ► ``key``, ``value``, one row a destination."""
    once = departed(flights).dropDuplicates(["flight", "origin", "scheduled"])
    counted = once.groupBy("dest").count()
    return counted.select(F.col("dest").alias("key"), F.to_json(F.struct("count")).alias("value"))


VIEW = View(
    name="airports",
    description="how many flights left for each destination",
    source="flights",
    topic="airports",
    decoder=FLIGHTS,
    derive=airports,
)
