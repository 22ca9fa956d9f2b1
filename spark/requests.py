"""What all views of the access log begin with: each request once."""

from __future__ import annotations

from pyspark.sql import DataFrame

IDENTITY = ["request_id", "time", "client", "bytes"]
"""Lines that are alike in these are one request: it does not matter which of them is counted."""

# Spark's own watermark (the greatest time that was read, less this) never moves: it would drop
# requests of partitions that are read more slowly than others. See ``spark.watermarks``.
_NEVER = "1000000 days"


def each_once(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG``, without those whose line was shipped before.

    Lines that are too late or too early are not well formed. Spark remembers what it has seen until
    ``spark.watermarks`` says that no more well-formed lines of that time can come.
    """
    return requests.withWatermark("time", _NEVER).dropDuplicates(IDENTITY)
