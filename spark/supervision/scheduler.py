"""Starts queries in order, and again after failures."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark.checkpoints.check import check_view
from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.generations import query_folders
from spark.checkpoints.unfinished import delete_unfinished
from spark.errors import JobError, Unavailable, summary
from spark.event_time.watermarks import Watermarks
from spark.formats.decoders import Decoder
from spark.kafka_admin import Topic
from spark.realtime.slots import check_slots
from spark.realtime.views import real_time_view
from spark.settings import Settings
from spark.supervision.events import (
    Events,
    QueryBegan,
    QueryCaughtUp,
    QueryEnded,
    dead_letters_of,
    queries_of,
    view_of,
)
from spark.supervision.moved_keys import MovedKeys
from spark.supervision.queries import view_queries
from spark.supervision.static_sources import StaticSources
from spark.supervision.tasks import running_tasks
from spark.supervision.tombstones import TombstoneGuard
from spark.view import View

_MAX_CATCHING_UP = 2  # concurrent views: with more, all of them would finish later
_CATCH_UP_TIMEOUT_S = 60.0  # after which the next view starts in any case
_MIN_BACKOFF_S = 1.0
_MAX_BACKOFF_S = 60.0
_TASKS_INTERVAL_S = 0.5  # between two checks whether the tasks of a failed query have ended


class QueryScheduler:
    """Starts the queries of all views, in order, and again after failures.

    At most ``_MAX_CATCHING_UP`` views catch up with their topics at the same time. The query for
    dead letters starts after the view's first micro-batch: readers wait for the view, and both
    queries read and decode every record. If several views read the same records with the same
    decoder, the first one writes the dead letters. If that view is refused, or stopped for good,
    another view writes them.

    A failed query starts again after ``_MIN_BACKOFF_S``. The time doubles with each failure in a
    row, up to ``_MAX_BACKOFF_S``. The query also waits until all tasks of the failed query have
    ended. Otherwise one of them could write an older value after the restarted query has written a
    newer one. A view is refused, and not started again, if its checkpoint belongs to another view
    or topic, or if it may have missed tombstones.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        topics: Mapping[str, Topic],
        events: Events,
        watermarks: Watermarks,
        static_sources: StaticSources,
        tombstones: TombstoneGuard,
        moved_keys: MovedKeys,
        log: Callable[[str], None],
    ) -> None:
        self._session = session
        self._settings = settings
        self._topics = topics
        self._events = events
        self._watermarks = watermarks
        self._log = log
        self._static_sources = static_sources
        self._tombstones = tombstones
        self._moved_keys = moved_keys
        self._waiting = deque(settings.views)
        self._catching_up: set[str] = set()
        self._last_start = time.monotonic()
        self._dead_letters_due: set[str] = set()  # views
        self._with_dead_letters: set[str] = set()  # views whose queries write them
        self._without: set[str] = set()  # views that gave up dead letters, until started again
        self._begun: set[str] = set()  # views with a micro-batch since their start
        self._decoded: list[tuple[str, Decoder]] = []
        self._queries: list[StreamingQuery] = []
        self._runs: dict[str, str] = {}  # query ► id of its last run
        self._failures: Counter[str] = Counter()
        self._restart_at: dict[str, float] = {}  # query ► monotonic s
        self._running: set[str] = set()  # queries, until their end is reported
        self._paused: set[str] = set()  # views
        self._never_started: dict[str, View] = {}  # stopped before their first start
        self._starting_again: dict[str, Callable[[], bool] | None] = {}  # by view
        self._not_before: dict[str, float] = {}  # view of ``_starting_again`` ► monotonic s

    @property
    def spark_has_stopped(self) -> bool:
        """Whether the session has stopped, so that no query can start."""
        return bool(self._session._jsc.sc().isStopped())

    @property
    def is_active(self) -> bool:
        """Whether a query runs, is due to start again, or is paused."""
        return bool(self._running or self._restart_at or self._paused or self._starting_again)

    def start_due(self) -> Iterator[str]:
        """Starts the views that are due; yields their names."""
        while self._waiting and (
            len(self._catching_up) < _MAX_CATCHING_UP
            or time.monotonic() - self._last_start > _CATCH_UP_TIMEOUT_S
        ):
            view = self._waiting.popleft()
            self._plan_dead_letters(view)
            self._catching_up.add(view.name)
            if self._try_start(view.name):
                self._last_start = time.monotonic()
                yield view.name

    def on_event(self, event: QueryBegan | QueryCaughtUp | QueryEnded) -> None:
        if event.query in self._dead_letters_due:
            self._dead_letters_due.remove(event.query)
            self._try_start(dead_letters_of(event.query))
        if isinstance(event, QueryBegan):
            self._failures.pop(event.query, None)
            self._begun.add(event.query)
        else:
            self._catching_up.discard(event.query)
        if isinstance(event, QueryEnded):
            self._running.discard(event.query)
            self._begun.discard(event.query)

    def is_paused(self, view: str) -> bool:
        return view in self._paused

    def is_stopped(self, view: str) -> bool:
        """Whether the view was stopped on command, so that failures of its queries are ignored."""
        return view in self._paused or view in self._starting_again

    def pause(self, view: str) -> None:
        """Stops the view's queries, or does not start them. ``start_again`` ends the pause."""
        self._starting_again.pop(view, None)
        self._paused.add(view)
        self._stop_view(view)

    def start_again(self, view: str, before: Callable[[], bool] | None = None) -> None:
        """Stops the view's queries, and starts them again when they have ended and ``before`` has
        returned True: see ``start_stopped``. If ``before`` returns False, it is called again, after
        the same delays as a failed query."""
        self._paused.discard(view)
        self._starting_again[view] = before
        self._stop_view(view)

    def start_stopped(self) -> Iterator[str]:
        """Starts the views of ``start_again`` whose queries have ended; yields their names."""
        for view, before in list(self._starting_again.items()):
            if time.monotonic() < self._not_before.get(view, 0.0) or any(
                query in self._running or running_tasks(self._session, self._runs.get(query, ""))
                for query in queries_of(view)
            ):
                continue
            if before is not None and not before():
                self._not_before[view] = time.monotonic() + self._next_delay(view)
                continue
            del self._starting_again[view]
            yield view
            if view in self._never_started:
                self._waiting.appendleft(self._never_started.pop(view))
            else:
                self._plan_dead_letters(self._view(view))
                self._try_start(view)

    def _plan_dead_letters(self, view: View) -> None:
        """Plans that the view writes the dead letters of its streams, unless another view does."""
        self._without.discard(view.name)
        if view.name not in self._with_dead_letters:
            if self._has_others(view):
                self._forget_dead_letters(view)
                return
            self._decoded += self._decoders(view)
            self._with_dead_letters.add(view.name)
        self._dead_letters_due.add(view.name)

    def _has_others(self, view: View) -> bool:
        """Whether other views write the dead letters of this view's streams."""
        return all(decoder in self._decoded for decoder in self._decoders(view))

    def _give_up_dead_letters(self, view: View) -> None:
        """Lets other running views write the dead letters of this view's streams. This view writes
        none until it is started again."""
        self._without.add(view.name)
        self._dead_letters_due.discard(view.name)
        self._restart_at.pop(dead_letters_of(view.name), None)
        if view.name not in self._with_dead_letters:
            return
        self._with_dead_letters.remove(view.name)
        for decoder in self._decoders(view):
            self._decoded.remove(decoder)
        for candidate in self._settings.views:
            is_started = candidate.name in self._running or candidate.name in self._restart_at
            if (
                is_started
                and not self.is_stopped(candidate.name)
                and candidate.name not in self._without | self._with_dead_letters
                and not self._has_others(candidate)
            ):
                self._plan_dead_letters(candidate)
                if candidate.name in self._begun:
                    self._dead_letters_due.remove(candidate.name)
                    self._try_start(dead_letters_of(candidate.name))

    def _forget_dead_letters(self, view: View) -> None:
        """Deletes the checkpoint of dead letters that the view wrote at an earlier time. If the
        view had to continue from there later, unread records might have expired, and Spark would
        refuse to continue. From the start, the view writes each dead letter again, with the same
        key."""
        try:
            files = CheckpointFiles(self._session)
            files.delete(query_folders(files, self._settings.checkpoint(view)).dead_letters)
        except (PySparkException, Py4JJavaError, JobError) as error:
            why = summary(str(error))
            self._log(f"warning: cannot delete the old dead letters of {view.name}: {why}")

    def _stop_view(self, name: str) -> None:
        for view in [view for view in self._waiting if view.name == name]:
            self._waiting.remove(view)
            self._never_started[name] = view
        self._dead_letters_due.discard(name)
        self._catching_up.discard(name)
        self._not_before.pop(name, None)
        for query_name in queries_of(name):
            self._restart_at.pop(query_name, None)
            self._failures.pop(query_name, None)
        for query in self._queries:
            if view_of(query.name) == name and query.isActive:
                self._stop_query(query)
        self._queries = [query for query in self._queries if query.isActive]

    def _stop_query(self, query: StreamingQuery) -> None:
        try:
            query.stop()
        except Py4JJavaError as error:
            # the query ends later, or not at all
            self._log(f"warning: {query.name} is slow to stop: {summary(str(error))}")

    def schedule_restart(self, query: str) -> float:
        """Schedules a restart of the failed query; returns the delay in seconds."""
        delay = self._next_delay(query)
        self._restart_at[query] = time.monotonic() + delay
        return delay

    def _next_delay(self, query: str) -> float:
        delay = min(_MIN_BACKOFF_S * 2.0 ** min(self._failures[query], 30), _MAX_BACKOFF_S)
        self._failures[query] += 1
        return delay

    def seconds_to_restart(self) -> float:
        """Seconds until the next restart is due; infinite if none is scheduled."""
        return max(0.0, min(self._restart_at.values(), default=float("inf")) - time.monotonic())

    def restart_due(self) -> Iterator[str]:
        """Starts the failed queries that are due; yields their names."""
        for query, at in list(self._restart_at.items()):
            if time.monotonic() >= at:
                if running_tasks(self._session, self._runs.get(query, "")):
                    self._restart_at[query] = time.monotonic() + _TASKS_INTERVAL_S
                    continue
                del self._restart_at[query]
                # A query that has ended does not need to be stopped.
                self._queries = [running for running in self._queries if running.isActive]
                self._try_start(query)
                yield query

    def stop_changed(self) -> Iterator[tuple[str, str]]:
        """Stops the views whose static sources have changed, that may have missed tombstones, or
        that cannot follow keys that have moved; yields their names and why."""
        running = {query.name: query for query in self._queries if query.isActive}
        views = [view for view in self._settings.views if view.name in running]
        stopping = self._static_sources.changed(views) | self._tombstones.missed(views)
        stopping |= {
            name: why for name, why in self._moved_keys.stopping().items() if name in running
        }
        for name, why in stopping.items():
            yield name, why
            for query in queries_of(name):
                if query in running:
                    self._stop_query(running[query])
            self._give_up_dead_letters(self._view(name))

    def stop(self) -> None:
        for query in self._queries:
            self._stop_query(query)

    def _try_start(self, query: str) -> bool:
        """Starts a query. If Spark cannot start the query, it counts as started and ended. Returns
        False if the job refuses it."""
        view = self._view(view_of(query))
        try:
            files = CheckpointFiles(self._session)
            folders = query_folders(files, self._settings.checkpoint(view))
            is_result = query == view.name
            delete_unfinished(files, folders.result if is_result else folders.dead_letters)
            if is_result:
                check_view(self._session, view, self._settings, self._log)
                self._tombstones.check(view)
                self._moved_keys.refuse(view)
                if self._settings.is_real_time(view):
                    check_slots(self._session, self._settings, self._topics)
            unstarted = view_queries(
                self._session,
                view,
                self._settings,
                self._topics[view.topic].partitions,
                max(self._topics[topic].partitions for topic in view.source_topics),
                self._watermarks,
                self._static_sources.ending_offsets(view),
            )
            self._start(unstarted.result if is_result else unstarted.dead_letters)
        except (PySparkException, Py4JJavaError, Unavailable) as error:
            self._running.add(query)
            self._events.put(QueryEnded(query, str(error)))
        except JobError as error:
            self._running.add(query)
            self._events.put(QueryEnded(query, str(error), refused=True))
            letters = dead_letters_of(view.name)
            if query == letters or not (letters in self._running or letters in self._restart_at):
                self._give_up_dead_letters(view)
            return False
        return True

    def _view(self, name: str) -> View:
        return next(view for view in self._settings.views if view.name == name)

    def _decoders(self, view: View) -> list[tuple[str, Decoder]]:
        """The decoder of each stream, as the queries of the view use it."""
        if self._settings.is_real_time(view):
            with suppress(JobError):
                view = real_time_view(view)
        return [(source.topic, source.decoder) for source in view.streams]

    def _start(self, writer: DataStreamWriter) -> None:
        started = writer.start()
        self._queries.append(started)
        self._runs[started.name] = str(started.runId)
        self._running.add(started.name)
