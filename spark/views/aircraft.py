"""aircraft: what is known of each aircraft that has departed, and its latest departure with the
names of airline and destination.

Key: tail number (string). Value: JSON

    {"manufacturer": "BOEING", "model": "737-824", "year": 1999, "seats": 149, "flight": "UA1545",
     "airline": "United Air Lines Inc.", "origin": "EWR", "dest": "IAH",
     "destination": "George Bush Intercontinental", "time": "2013-01-01T10:17:00Z", "delay": 2}

with the latest departure of the view ``latest-departure``. Fields that are not known are missing. A
later record in planes, airlines or us-airports changes the values of all aircraft that it concerns.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.joins import Reference, Table, joined
from spark.raw_topics.flights import FLIGHTS, departed
from spark.raw_topics.references import AIRLINES, PLANES, US_AIRPORTS
from spark.view import Source, View

_DEPARTURE = ["left", "flight", "origin", "dest", "delay"]


def aircraft(
    flights: DataFrame, planes: DataFrame, airlines: DataFrame, airports: DataFrame
) -> DataFrame:
    """Well-formed rows of four topics ► ``key``, ``value``, one row per aircraft."""
    departures = departed(flights).select("tailnum", "carrier", *_DEPARTURE)
    rows = joined(
        Table(departures, ["tailnum"], newest=_DEPARTURE),
        plane=Reference(Table(planes, ["tailnum"]), on=["tailnum"]),
        airline=Reference(Table(airlines, ["carrier"]), on=["carrier"]),
        destination=Reference(Table(airports, ["faa"]), on=["dest"]),
    )
    time = F.date_format(F.timestamp_seconds("left"), "yyyy-MM-dd'T'HH:mm:ss'Z'")
    value = F.struct(
        *("plane.manufacturer", "plane.model", "plane.year", "plane.seats", "flight"),
        F.col("airline.name").alias("airline"),
        *("origin", "dest"),
        F.col("destination.name").alias("destination"),
        time.alias("time"),
        "delay",
    )
    return rows.select(F.col("tailnum").alias("key"), F.to_json(value).alias("value"))


VIEW = View(
    name="aircraft",
    description="each aircraft, with its latest departure, airline and destination",
    sources=(
        Source("flights", FLIGHTS),
        Source("planes", PLANES),
        Source("airlines", AIRLINES),
        Source("us-airports", US_AIRPORTS),
    ),
    topic="aircraft",
    derive=aircraft,
    revision=1,
)
