"""The topic airlines: the names of airlines, one JSON object per record.

Key: the carrier's code, such as UA. The last record of a key replaces the earlier ones.
"""

from __future__ import annotations

from pyspark.sql.types import StringType, StructField, StructType

from spark.formats.decoders import JsonDecoder
from spark.joins import LOG_ORDER

AIRLINES = JsonDecoder(
    StructType(
        [
            StructField("carrier", StringType(), nullable=False),
            StructField("name", StringType(), nullable=False),
        ]
    ),
    record=LOG_ORDER,
)
