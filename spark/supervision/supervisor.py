"""Runs all views until they are done or the job has to stop."""

from __future__ import annotations

import queue
import sys
import time
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.errors import JobError, query_failed, rows_dropped
from spark.event_time.watermarks import Watermarks
from spark.kafka_admin import KafkaAdmin, Topic
from spark.settings import Settings
from spark.supervision.commands import PipelineCommands
from spark.supervision.control import ViewControl
from spark.supervision.events import (
    CommandReceived,
    ProgressNotWritten,
    QueryEnded,
    RowsDropped,
    StopRequested,
    view_of,
)
from spark.supervision.heartbeats import Heartbeats
from spark.supervision.moved_keys import MovedKeys
from spark.supervision.progress import ProgressListener
from spark.supervision.rebuilds import Rebuilds
from spark.supervision.scheduler import QueryScheduler
from spark.supervision.signals import StopSignal
from spark.supervision.static_sources import StaticSources
from spark.supervision.tombstones import TombstoneGuard
from spark.supervision.topics import check_unchanged, prepare_topics

_TOPIC_CHECK_INTERVAL_S = 10.0
_MAX_WAIT_S = 1.0  # for an event


def supervise(session: SparkSession, settings: Settings, stop: StopSignal) -> None:
    """Starts the queries, and returns when they have ended or a signal arrives; ``JobError`` if the
    job failed."""
    with KafkaAdmin(session, settings.kafka) as admin:
        topics = prepare_topics(session, admin, settings, log)
        static_sources = StaticSources(session, admin, settings, topics)
        moved_keys = MovedKeys(session, admin, settings, topics, static_sources, log)
        try:
            progress = ProgressListener(
                session,
                settings.progress,
                [view.name for view in settings.views],
                stop.events,
                {view.name: settings.report_interval(view) for view in settings.views},
            )
        except OSError as error:
            raise JobError(
                f"cannot write {settings.progress}: {error.strerror or error}. Name another file "
                "with --progress."
            ) from error
        watermarks = Watermarks(session)
        session.streams.addListener(progress)
        session.streams.addListener(watermarks)
        stop.started()
        tombstones = TombstoneGuard(session, admin, settings, progress.statuses, log)
        scheduler = QueryScheduler(
            session,
            settings,
            topics,
            stop.events,
            watermarks,
            static_sources,
            tombstones,
            moved_keys,
            log,
        )
        commands = PipelineCommands(admin, settings.views, settings.group_prefix, stop.events)
        rebuilds = Rebuilds(session, admin, settings, topics, log)
        control = ViewControl(scheduler, progress, commands, rebuilds, tombstones, moved_keys, log)
        heartbeats = Heartbeats(
            admin,
            settings.views,
            settings.group_prefix,
            lambda: moved_keys.with_doubts(progress.statuses()),
            settings.health,
            log,
            None if settings.once else commands,
            admin.ask_for_end_offsets,
        )
        if not settings.once:
            _carry_out_earlier(commands, control)
        with heartbeats:
            try:
                _watch(
                    admin,
                    settings,
                    scheduler,
                    stop,
                    topics,
                    moved_keys,
                    progress,
                    tombstones,
                    control,
                )
            finally:
                heartbeats.ending(sys.exception())
                with suppress(Py4JError, PySparkException, OSError):
                    tombstones.keep(is_last=True)
                    scheduler.stop()
                    moved_keys.stop()
                    session.streams.removeListener(watermarks)
                    session.streams.removeListener(progress)


def _watch(
    admin: KafkaAdmin,
    settings: Settings,
    scheduler: QueryScheduler,
    stop: StopSignal,
    topics: dict[str, Topic],
    moved_keys: MovedKeys,
    progress: ProgressListener,
    tombstones: TombstoneGuard,
    control: ViewControl,
) -> None:
    """Returns when all queries have ended or a signal arrives.

    A query that fails is started again; the others continue. With ``once``, or if the job refuses
    the query, it is not started again: the first failure is raised when the others are done.
    """
    next_check = time.monotonic() + _TOPIC_CHECK_INTERVAL_S
    first_failure: JobError | None = None
    _start_due(scheduler, progress, control)
    while scheduler.is_active:
        try:
            event = stop.events.get(timeout=min(_MAX_WAIT_S, scheduler.seconds_to_restart()))
        except queue.Empty:
            if time.monotonic() >= next_check:
                check_unchanged(admin, settings, topics, moved_keys, progress.statuses())
                tombstones.keep()
                for view, why in scheduler.stop_changed():
                    progress.failed(view, why, is_final=True)
                    first_failure = first_failure or JobError(why)
                    log(f"error: {why}")
                next_check = time.monotonic() + _TOPIC_CHECK_INTERVAL_S
        else:
            if isinstance(event, StopRequested):
                return
            if isinstance(event, ProgressNotWritten):
                raise JobError(f"cannot write {settings.progress}: {event.reason}.")
            if isinstance(event, RowsDropped):
                log(rows_dropped(event.view, event.rows))
                continue
            if isinstance(event, CommandReceived):
                control.carry_out(*event)
                continue
            scheduler.on_event(event)
            if (
                isinstance(event, QueryEnded)
                and event.error is not None
                and not scheduler.is_stopped(view_of(event.query))
            ):
                failure = _failure(event, settings)
                progress.failed(event.query, str(failure), is_final=event.refused)
                if event.refused or settings.once:
                    first_failure = first_failure or failure
                    if not settings.once:
                        log(f"error: {failure}")
                elif scheduler.spark_has_stopped:
                    raise JobError(f"Spark has stopped: {failure} Start again.")
                else:
                    # A restart does not help if the topic was recreated.
                    check_unchanged(admin, settings, topics, moved_keys, progress.statuses())
                    delay = scheduler.schedule_restart(event.query)
                    log(f"error: {failure} It starts again in {delay:g} s.")
        for query in scheduler.restart_due():
            progress.restarted(query)
        control.finish_rebuilds(progress.statuses())
        if not settings.once:
            control.put_in_order(progress.statuses())
        _start_due(scheduler, progress, control)
    if settings.once:
        for failure in moved_keys.finish(progress.statuses()):
            first_failure = first_failure or failure
    if first_failure is not None:
        raise first_failure


def _carry_out_earlier(commands: PipelineCommands, control: ViewControl) -> None:
    """Carries out commands that were given before this start."""
    try:
        for view, command in commands.at_start().items():
            control.carry_out(view, command)
    except (OSError, Py4JError) as error:
        if "AuthorizationException" in str(error):
            log(f"warning: the job follows no commands: {error}")
            return
        raise JobError(
            f"cannot read the commands for the views: {error}. Check that the brokers run, and "
            "that the job may read its consumer groups."
        ) from error


def _start_due(scheduler: QueryScheduler, progress: ProgressListener, control: ViewControl) -> None:
    for view in scheduler.start_stopped():
        progress.started_again(view)
        control.started(view)
        log(f"starting {view} again")
    for view in scheduler.start_due():
        log(f"running {view}")


def _failure(event: QueryEnded, settings: Settings) -> JobError:
    if event.refused:
        return JobError(event.error)
    view = next(view for view in settings.views if view.name == view_of(event.query))
    return query_failed(
        event.query,
        source=", ".join(view.source_topics),
        target=view.topic if event.query == view.name else "dead letters",
        checkpoint=settings.checkpoint(view),
        error=event.error or "",
    )


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
