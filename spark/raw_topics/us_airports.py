"""The topic us-airports: the names of airports in the USA, one JSON object per record.

Key: the airport's code, such as EWR. The last record of a key replaces the earlier ones.
"""

from __future__ import annotations

from pyspark.sql.types import StringType, StructField, StructType

from spark.formats.decoders import JsonDecoder
from spark.joins import LOG_ORDER

US_AIRPORTS = JsonDecoder(
    StructType(
        [
            StructField("faa", StringType(), nullable=False),
            StructField("name", StringType(), nullable=False),
        ]
    ),
    record=LOG_ORDER,
)
