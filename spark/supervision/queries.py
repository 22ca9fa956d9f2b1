"""Builds the two streaming queries of a view: its results and its dead letters."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark.event_time.watermarks import Watermarks, observed
from spark.settings import Settings
from spark.sinks import DEAD_LETTER_SUFFIX, dead_letters, topic_writer
from spark.sources import raw_records
from spark.supervision.progress import with_late_count
from spark.view import View


class ViewQueries(NamedTuple):
    """Unstarted queries with their triggers and checkpoints."""

    result: DataStreamWriter
    dead_letters: DataStreamWriter


def view_queries(
    session: SparkSession,
    view: View,
    settings: Settings,
    partitions: int,
    source_partitions: int,
    watermarks: Watermarks,
) -> ViewQueries:
    """``partitions``: number of partitions of the view topic; ``source_partitions``: of the raw
    topic. If partitions are added to the raw topic, the watermark does not advance until the next
    start."""
    records = raw_records(session, view.source, settings.kafka, settings.max_offsets_per_trigger)
    rejected = with_late_count(view.rejected(records))
    bounds = view.decoder.event_time
    read = records if bounds is None else observed(records, source_partitions, bounds.before)
    checkpoint = settings.checkpoint(view)
    result = topic_writer(
        view.result(read),
        view.topic,
        settings.kafka,
        partitions=partitions,
        query=view.name,
        checkpoint=f"{checkpoint}/view",
        on_written=None if bounds is None else watermarks.advance,
    )
    letters = topic_writer(
        dead_letters(rejected, by=f"spark/{view.name}"),
        view.source + DEAD_LETTER_SUFFIX,
        settings.kafka,
        partitions=1,
        query=f"{view.name}/dead-letters",
        checkpoint=f"{checkpoint}/dead-letters",
    )
    if settings.once:
        return ViewQueries(result.trigger(availableNow=True), letters.trigger(availableNow=True))
    return ViewQueries(
        result.trigger(processingTime=settings.trigger),
        letters.trigger(processingTime=settings.trigger),
    )
