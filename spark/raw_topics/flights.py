"""The topic flights: departures from New York's airports, one JSON object per record."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from spark.formats.checks import Checks, Needs, NotEmpty, Within
from spark.formats.decoders import JsonDecoder
from spark.formats.records import POSITION

FLIGHT = StructType(
    [
        StructField("tailnum", StringType(), nullable=False),
        StructField("carrier", StringType(), nullable=False),
        StructField("flight", IntegerType(), nullable=False),
        StructField("origin", StringType(), nullable=False),
        StructField("dest", StringType(), nullable=False),
        StructField("time_hour", TimestampType(), nullable=False),
        StructField("minute", IntegerType(), nullable=False),
        StructField("dep_time", IntegerType()),
        StructField("dep_delay", IntegerType()),
    ]
)
"""The fields that the views use. ``dep_time`` is null if the flight was cancelled; ``minute`` and
``dep_delay`` are minutes."""


_RULES = Checks(NotEmpty("tailnum"), Within("minute", 0, 59), Needs("dep_time", "dep_delay"))

FLIGHTS = JsonDecoder(FLIGHT, _RULES, record=tuple(POSITION.names))


def departed(flights: DataFrame) -> DataFrame:
    """Well-formed rows of ``FLIGHTS`` ► one row per departed flight, without cancelled ones.

    ``tailnum``, ``carrier``, ``flight`` (such as UA1545), ``origin``, ``dest``, ``delay`` (minutes,
    negative when early), ``scheduled`` and ``left`` (seconds since 1970; ``left`` is the schedule
    plus the delay), and the columns of ``POSITION``.
    """
    # 64-bit numbers: in 32 bits the longest delays overflow, which makes the query fail.
    scheduled = F.unix_seconds("time_hour") + 60 * F.col("minute").cast("long")
    return flights.where("dep_time IS NOT NULL").select(
        "tailnum",
        "carrier",
        F.concat("carrier", "flight").alias("flight"),
        "origin",
        "dest",
        F.col("dep_delay").alias("delay"),
        scheduled.alias("scheduled"),
        (scheduled + 60 * F.col("dep_delay").cast("long")).alias("left"),
        *POSITION.names,
    )
