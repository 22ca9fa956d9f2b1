"""The numbers of a view in its heartbeats (``model.pipelines.stats``)."""

from __future__ import annotations

from datetime import datetime
from math import isfinite

from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark.supervision.status import ViewProgress


def stats_of(progress: StreamingQueryProgress) -> dict[str, float]:
    """The rates, the duration and the state of a micro-batch."""
    operators = progress.stateOperators
    stats: dict[str, float] = {
        "input_rate": progress.inputRowsPerSecond,
        "processed_rate": progress.processedRowsPerSecond,
        "batch_ms": progress.batchDuration,
    }
    if operators:
        stats["state_rows"] = sum(operator.numRowsTotal for operator in operators)
        stats["state_bytes"] = sum(operator.memoryUsedBytes for operator in operators)
    watermark = progress.eventTime.get("watermark")
    # before the first watermark, Spark reports 1970, or a time long before
    if watermark is not None and not watermark.startswith(("-", "1970-")):
        stats["watermark"] = round(datetime.fromisoformat(watermark).timestamp() * 1000)
    return {name: round(number, 3) for name, number in stats.items() if isfinite(number)}


def counts_of(view: ViewProgress) -> dict[str, float]:
    return {
        "input_rows": view.input_rows,
        "late_rows": view.late_rows,
        "dropped_rows": view.dropped_rows,
        "dead_letters": view.dead_letters,
        "restarts": view.restarts,
    }
