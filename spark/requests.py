"""What all views of the access log begin with: each request once, and none that is too late."""

from __future__ import annotations

from pyspark.sql import DataFrame

LATENESS = "1 hour"
"""How much older than the newest request a request may be and still count."""


def each_once(requests: DataFrame) -> DataFrame:
    """Well-formed rows of ``WEBLOG``, without those whose line was shipped before.

    A line that is shipped twice has the same ``request_id`` and ``time``. Spark remembers both
    until the watermark (the greatest time of the micro-batches before, less ``LATENESS``) has
    passed the time, and drops what is older than that: so a request never counts twice, and the
    state stays as small as an hour of requests. What was dropped stands in the progress file.
    """
    return requests.withWatermark("time", LATENESS).dropDuplicates(["request_id", "time"])
