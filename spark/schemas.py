"""What is within the records: the schema of every raw topic and how it is decoded.

Decoding never fails and never drops: a record is well formed, or malformed for a ``reason``, and
then goes to the dead-letter topic (``spark.sinks``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark import json_values
from spark.event_time import EventTime

# What spark.sources reads of a Kafka record.
RAW_RECORD = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)
# No two records have the same position. The record with the greatest one is the last.
POSITION = StructType([RAW_RECORD[name] for name in ("timestamp", "partition", "offset")])
MALFORMED = StructType([*RAW_RECORD, StructField("reason", StringType(), nullable=False)])

# Those fields of a flight that the views need. Where a flight never departed (cancelled) dep_time
# is null; minute and dep_delay are minutes.
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

# Those fields of a line of the proxy's access log that the views need; bytes: all that was sent.
REQUEST = StructType(
    [
        StructField("request_id", StringType(), nullable=False),
        StructField("client", StringType(), nullable=False),
        StructField("time", TimestampType(), nullable=False),
        StructField("bytes", LongType(), nullable=False),
    ]
)

LATENESS = 3600
"""By how many seconds a line's time may be before its record's timestamp: shipping takes time."""
EARLINESS = 3600
"""By how many seconds it may be after it: clocks differ."""

# What is longer cannot be meant, and could become a key that Kafka does not take.
MAX_WORD_CHARACTERS = 1000


class Decoder(Protocol):
    """The records of a raw topic, as two DataFrames of the same RAW_RECORD rows.

    ``event_time``: where the time of the event is bounded by the record's timestamp.
    """

    @property
    def event_time(self) -> EventTime | None: ...

    def well_formed(self, records: DataFrame) -> DataFrame:
        """What is within the well-formed records."""

    def malformed(self, records: DataFrame) -> DataFrame:
        """The others, as MALFORMED rows."""


@dataclass(frozen=True, slots=True)
class Json:
    """Values that are one JSON object (RFC 8259) each, with the schema's types.

    No ``"5"`` for a number, no number for a string; times are text (``2013-01-01T10:00:00Z``).
    Fields that the schema does not name are passed over. ``wrong`` looks at fields of the right
    types, and says what is wrong with them. ``event_time`` bounds the time of the event.
    Well-formed rows have ``POSITION`` too: when and where the record was written.

    Decoded in Python, an Arrow batch at a time, for Spark's own parser is lenient: looking through
    each record again, for what it should not have taken, costs more than parsing it.
    """

    schema: StructType
    wrong: Callable[[json_values.Fields], str | None]
    event_time: EventTime | None = None

    def well_formed(self, records: DataFrame) -> DataFrame:
        decode = partial(
            json_values.well_formed,
            schema=self.schema,
            wrong=self.wrong,
            event_time=self.event_time,
            carried=POSITION.names,
        )
        columns = records.select(*POSITION.names, "value")
        return columns.mapInArrow(decode, StructType([*POSITION, *self.schema]))

    def malformed(self, records: DataFrame) -> DataFrame:
        decode = partial(
            json_values.malformed,
            schema=self.schema,
            wrong=self.wrong,
            event_time=self.event_time,
        )
        return records.mapInArrow(decode, MALFORMED)


class Texts:
    """Values that are text in UTF-8; well-formed rows have it as ``text``."""

    event_time = None

    def well_formed(self, records: DataFrame) -> DataFrame:
        return self._checked(records).where("reason IS NULL").select("text")

    def malformed(self, records: DataFrame) -> DataFrame:
        return self._checked(records).where("reason IS NOT NULL").select(*MALFORMED.names)

    def _checked(self, records: DataFrame) -> DataFrame:
        text = F.col("value").cast("string")
        # The look-behind keeps the search linear; in Java \\w is ASCII.
        too_long = text.rlike(rf"(?<![\w'])[\w']{{{MAX_WORD_CHARACTERS + 1}}}")
        reason = (
            F.when(F.col("value").isNull(), "value: null")
            .when(~F.is_valid_utf8(text), "value: not UTF-8")
            .when(too_long, f"value: a word of more than {MAX_WORD_CHARACTERS} characters")
        )
        return records.withColumns({"text": text, "reason": reason})


def _wrong_flight(flight: json_values.Fields) -> str | None:
    if not flight["tailnum"]:
        return "tailnum: missing"
    if not 0 <= flight["minute"] <= 59:
        return "minute: not within 0 to 59"
    if flight["dep_time"] is not None and flight["dep_delay"] is None:
        return "dep_delay: missing"
    return None


def _wrong_request(request: json_values.Fields) -> str | None:
    for name in ("request_id", "client"):
        if not request[name]:
            return f"{name}: missing"
    # beyond that a sum could overflow, which stops a query
    if not 0 <= request["bytes"] < 2**40:
        return "bytes: not within 0 to 2^40"
    return None


FLIGHTS = Json(FLIGHT, _wrong_flight)
WEBLOG = Json(REQUEST, _wrong_request, EventTime("time", before=LATENESS, after=EARLINESS))
TEXTS = Texts()
