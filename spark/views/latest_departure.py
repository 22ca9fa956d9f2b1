"""latest-departure: the latest departure of every aircraft.

Key: tail number (string). Value: JSON

    {"flight": "UA1545", "origin": "EWR", "dest": "IAH", "time": "2013-01-01T10:17:00Z", "delay": 2}

where ``time`` is the departure time (schedule plus delay, UTC) and ``delay`` is in minutes,
negative when early. The latest departure has the greatest ``time``, independent of the order of
records; among equal times the greatest ``flight``, then ``origin``, ``dest`` and ``delay``.
Cancelled flights do not count. An aircraft that never departed has no entry.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.raw_topics.flights import FLIGHTS, departed
from spark.view import View


def latest_departure(flights: DataFrame) -> DataFrame:
    """Well-formed rows of ``FLIGHTS`` ► ``key``, ``value``, one row per aircraft."""
    # Checkpoints have state with these names and types.
    left = F.timestamp_seconds("left").alias("time")
    departure = F.struct(left, "flight", "origin", "dest", "delay")
    latest = departed(flights).groupBy("tailnum").agg(F.max(departure).alias("latest"))
    time = F.date_format("latest.time", "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("time")
    value = F.struct("latest.flight", "latest.origin", "latest.dest", time, "latest.delay")
    return latest.select(F.col("tailnum").alias("key"), F.to_json(value).alias("value"))


VIEW = View(
    name="latest-departure",
    description="the latest departure of every aircraft (tail number)",
    source="flights",
    topic="latest-departure",
    decoder=FLIGHTS,
    derive=latest_departure,
    partitions=9,
    revision=1,
)
