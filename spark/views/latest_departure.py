"""latest-departure: the latest departure of every aircraft.

Key: tail number (string). Value: JSON

    {"flight": "UA1545", "origin": "EWR", "dest": "IAH", "time": "2013-01-01T10:17:00Z", "delay": 2}

where ``time`` is when it left (schedule plus delay, UTC) and ``delay`` is in minutes, negative when
early. The latest is the one of the greatest ``time``, whatever the order of arrival; of departures
at the same time the greatest ``flight``, then ``origin``, ``dest`` and ``delay``. Cancelled flights
did not depart. An aircraft that never departed has no entry.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.departed import departed
from spark.schemas import FLIGHTS
from spark.view import View


def latest_departure(flights: DataFrame) -> DataFrame:
    """Well-formed rows of ``FLIGHTS`` ► ``key``, ``value``, one row an aircraft."""
    # its names and types are those of the state in checkpoints
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
)
