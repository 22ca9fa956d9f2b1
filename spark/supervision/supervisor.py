"""Runs all views until they are done or the job has to stop."""

from __future__ import annotations

import queue
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

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
    Event,
    Events,
    ProgressNotWritten,
    QueryBegan,
    QueryCaughtUp,
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
    """Starts the queries, and returns when they have ended or a signal arrives. Raises ``JobError``
    if the job failed."""
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
                job = _Job(
                    admin,
                    settings,
                    topics,
                    scheduler,
                    moved_keys,
                    progress,
                    tombstones,
                    control,
                )
                job.watch(stop.events)
            finally:
                heartbeats.ending(sys.exception())
                with suppress(Py4JError, PySparkException, OSError):
                    tombstones.keep(is_last=True)
                    scheduler.stop()
                    moved_keys.stop()
                    session.streams.removeListener(watermarks)
                    session.streams.removeListener(progress)


@dataclass
class _Job:
    """The job while its queries run. A query that fails is started again; the others continue."""

    admin: KafkaAdmin
    settings: Settings
    topics: dict[str, Topic]
    scheduler: QueryScheduler
    moved_keys: MovedKeys
    progress: ProgressListener
    tombstones: TombstoneGuard
    control: ViewControl
    first_failure: JobError | None = None

    def watch(self, events: Events) -> None:
        """Returns when all queries have ended or a signal arrives.

        With ``once``, or if the job refuses a query, it is not started again: the first failure is
        raised when the others are done.
        """
        next_check = time.monotonic() + _TOPIC_CHECK_INTERVAL_S
        self._start_due()
        while self.scheduler.is_active:
            timeout_s = min(_MAX_WAIT_S, self.scheduler.seconds_to_restart())
            try:
                event = events.get(timeout=timeout_s)
            except queue.Empty:
                if time.monotonic() >= next_check:
                    self._check_topics()
                    next_check = time.monotonic() + _TOPIC_CHECK_INTERVAL_S
            else:
                if isinstance(event, StopRequested):
                    return
                self._handle(event)
                if isinstance(event, RowsDropped | CommandReceived):
                    continue
            for query in self.scheduler.restart_due():
                self.progress.restarted(query)
            self.control.finish_rebuilds(self.progress.statuses())
            if not self.settings.once:
                self.control.put_in_order(self.progress.statuses())
            self._start_due()
        if self.settings.once:
            for failure in self.moved_keys.finish(self.progress.statuses()):
                self._note(failure)
        if self.first_failure is not None:
            raise self.first_failure

    def _handle(self, event: Event) -> None:
        if isinstance(event, ProgressNotWritten):
            raise JobError(f"cannot write {self.settings.progress}: {event.reason}.")
        if isinstance(event, RowsDropped):
            log(rows_dropped(event.view, event.rows))
        elif isinstance(event, CommandReceived):
            self.control.carry_out(*event)
        elif isinstance(event, QueryBegan | QueryCaughtUp | QueryEnded):
            self.scheduler.on_event(event)
            if (
                isinstance(event, QueryEnded)
                and event.error is not None
                and not self.scheduler.is_stopped(view_of(event.query))
            ):
                self._query_failed(event)

    def _query_failed(self, event: QueryEnded) -> None:
        failure = _failure(event, self.settings)
        self.progress.failed(event.query, str(failure), is_final=event.refused)
        if event.refused or self.settings.once:
            self._note(failure)
            if not self.settings.once:
                log(f"error: {failure}")
        elif self.scheduler.spark_has_stopped:
            raise JobError(f"Spark has stopped: {failure} Start again.")
        else:
            # A restart does not help if the topic was recreated.
            self._check_unchanged()
            delay_s = self.scheduler.schedule_restart(event.query)
            log(f"error: {failure} It starts again in {delay_s:g} s.")

    def _check_topics(self) -> None:
        self._check_unchanged()
        self.tombstones.keep()
        for view, why in self.scheduler.stop_changed():
            self.progress.failed(view, why, is_final=True)
            self._note(JobError(why))
            log(f"error: {why}")

    def _check_unchanged(self) -> None:
        statuses = self.progress.statuses()
        check_unchanged(self.admin, self.settings, self.topics, self.moved_keys, statuses)

    def _note(self, failure: JobError) -> None:
        self.first_failure = self.first_failure or failure

    def _start_due(self) -> None:
        for view in self.scheduler.start_stopped():
            self.progress.started_again(view)
            self.control.started(view)
            log(f"starting {view} again")
        for view in self.scheduler.start_due():
            log(f"running {view}")


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
