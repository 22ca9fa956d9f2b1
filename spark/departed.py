"""What several views of flights begin with: the departures among them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.schemas import POSITION


def departed(flights: DataFrame) -> DataFrame:
    """Well-formed rows of ``FLIGHTS`` ► one row a flight that departed, cancelled ones left out.

    ``tailnum``, ``flight`` (such as UA1545), ``origin``, ``dest``, ``delay`` (minutes, negative
    when early), ``scheduled`` and ``left`` (seconds since 1970; the schedule plus the delay), and
    ``POSITION``: when and where the record was written.
    """
    # As 64-bit numbers: in 32 bits the greatest delays would overflow, which stops a query.
    scheduled = F.unix_seconds("time_hour") + 60 * F.col("minute").cast("long")
    return flights.where("dep_time IS NOT NULL").select(
        "tailnum",
        F.concat("carrier", "flight").alias("flight"),
        "origin",
        "dest",
        F.col("dep_delay").alias("delay"),
        scheduled.alias("scheduled"),
        (scheduled + 60 * F.col("dep_delay").cast("long")).alias("left"),
        *POSITION.names,
    )
