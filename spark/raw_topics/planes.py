"""The topic planes: what is known of an aircraft, one JSON object per record.

Key: tail number. The last record of a key replaces the earlier ones.
"""

from __future__ import annotations

from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from spark.formats.decoders import JsonDecoder
from spark.joins import LOG_ORDER

PLANES = JsonDecoder(
    StructType(
        [
            StructField("tailnum", StringType(), nullable=False),
            StructField("year", IntegerType()),
            StructField("manufacturer", StringType()),
            StructField("model", StringType()),
            StructField("seats", IntegerType()),
        ]
    ),
    record=LOG_ORDER,
)
"""The fields that the views use. ``year``: when the aircraft was made."""
