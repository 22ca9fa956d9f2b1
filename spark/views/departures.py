"""departures: every departure of every aircraft, as a time series.

Key: tail number and departure time (schedule plus delay), in Kafka Streams' window layout.
Value: JSON

    {"flight": "UA1545", "origin": "EWR", "dest": "IAH", "delay": 2}

with ``delay`` in minutes, negative when early. A late or duplicate record is stored once, at its
time. If several records have the same aircraft and time, the last one in the raw topic is kept: the
topic's key is the aircraft, and no shuffle changes the order of a partition. Cancelled flights do
not count.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.formats.keys import window_key
from spark.raw_topics.flights import FLIGHTS, departed
from spark.view import View


def departures(flights: DataFrame) -> DataFrame:
    """Well-formed rows of ``FLIGHTS`` ► ``key``, ``value``, ``bare_key``, one row per departure."""
    return departed(flights).select(
        window_key(F.col("tailnum"), 1000 * F.col("left")).alias("key"),
        F.to_json(F.struct("flight", "origin", "dest", "delay")).alias("value"),
        F.col("tailnum").alias("bare_key"),
    )


VIEW = View(
    name="departures",
    description="every departure of every aircraft, as a time series",
    source="flights",
    topic="departures",
    decoder=FLIGHTS,
    derive=departures,
    partitions=9,
    revision=1,
)
