"""Builds the two streaming queries of a view: its results and its dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.generations import query_folders
from spark.event_time.watermarks import Watermarks, observed
from spark.realtime.views import check_plan, real_time_view
from spark.settings import Settings
from spark.sinks import dead_letters, topic_writer
from spark.sources import raw_records, static_records
from spark.supervision.events import dead_letters_of
from spark.supervision.plan_rules import check_joins
from spark.supervision.progress import with_late_count
from spark.view import Source, View, derived_rows, only_of_view


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
    static_ends: Mapping[str, str] | None = None,
) -> ViewQueries:
    """The queries of a view. ``partitions``: the number of partitions of the view topic.
    ``source_partitions``: the greatest number of partitions of a source, for the watermark.
    ``static_ends``: the offsets up to which static sources are read (``StaticSources``)."""
    is_real_time = settings.is_real_time(view)
    if is_real_time:
        view = real_time_view(view)
    ends, max_offsets = static_ends or {}, settings.max_offsets_per_trigger
    records = [_records(session, source, settings, ends, max_offsets) for source in view.inputs]
    live = records
    if is_real_time:
        live = [_records(session, source, settings, ends, None) for source in view.inputs]
    folders = query_folders(CheckpointFiles(session), settings.checkpoint(view))
    # A view without state needs no watermark, because there is no state to free.
    is_watermarked = not is_real_time and view.has_watermark
    inputs = [
        _observed(source, source_records, source_partitions) if is_watermarked else source_records
        for source, source_records in zip(view.inputs, live, strict=True)
    ]
    rows = derived_rows(view, inputs)
    check_joins(rows, view)
    if is_real_time:
        check_plan(rows, view)
    result = topic_writer(
        rows,
        view.topic,
        settings.kafka,
        partitions=partitions,
        query=view.name,
        checkpoint=folders.result,
        output_mode=view.output_mode,
        on_written=watermarks.advance if is_watermarked else None,
        is_real_time=is_real_time,
    )
    with only_of_view(view, "decoder"):
        rejected = with_late_count(view.rejected(*records))
    letters = topic_writer(
        dead_letters(rejected, by=f"spark/{view.name}"),
        None,
        settings.kafka,
        partitions=1,
        query=dead_letters_of(view.name),
        checkpoint=folders.dead_letters,
    )
    if settings.once:
        return ViewQueries(result.trigger(availableNow=True), letters.trigger(availableNow=True))
    if is_real_time:
        result = result.trigger(realTime=settings.real_time_batch)  # type: ignore[call-overload]
    else:
        result = result.trigger(processingTime=settings.micro_batch_trigger(view))
    return ViewQueries(result, letters.trigger(processingTime=settings.dead_letters_trigger(view)))


def _records(
    session: SparkSession,
    source: Source,
    settings: Settings,
    ends: Mapping[str, str],
    max_offsets: int | None,
) -> DataFrame:
    if source.static:
        return static_records(session, source.topic, settings.kafka, ends[source.topic])
    return raw_records(session, source.topic, settings.kafka, max_offsets)


def _observed(source: Source, records: DataFrame, partitions: int) -> DataFrame:
    if source.lateness_s is None:
        return records
    return observed(records, source.topic, partitions, source.lateness_s)
