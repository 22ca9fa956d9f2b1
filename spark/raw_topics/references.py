"""The topics planes, airlines and us-airports: reference data, one JSON object per record.

Keys: the tail number, the carrier's code such as UA, and the airport's code such as EWR. The last
record of a key replaces the earlier ones.
"""

from __future__ import annotations

from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from spark.formats.decoders import JsonDecoder
from spark.joins import LOG_ORDER


def _decoder(*fields: StructField) -> JsonDecoder:
    return JsonDecoder(StructType(list(fields)), record=LOG_ORDER)


PLANES = _decoder(
    StructField("tailnum", StringType(), nullable=False),
    StructField("year", IntegerType()),
    StructField("manufacturer", StringType()),
    StructField("model", StringType()),
    StructField("seats", IntegerType()),
)
"""The fields that the views use. ``year``: when the aircraft was made."""

AIRLINES = _decoder(
    StructField("carrier", StringType(), nullable=False),
    StructField("name", StringType(), nullable=False),
)

US_AIRPORTS = _decoder(
    StructField("faa", StringType(), nullable=False),
    StructField("name", StringType(), nullable=False),
)
