"""Listens to all queries, and writes the progress of each view to a JSON file, atomically."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from model.machine.clock import boot_time
from spark.checkpoints.positions import Positions, positions_of
from spark.errors import summary
from spark.event_time.bounds import LATE
from spark.supervision.events import (
    Events,
    ProgressNotWritten,
    QueryBegan,
    QueryCaughtUp,
    QueryEnded,
    RowsDropped,
    queries_of,
    view_of,
)
from spark.supervision.stats import counts_of, stats_of
from spark.supervision.status import (
    FAILED,
    MIN_GAP_S,
    PAUSED,
    RUNNING,
    STARTING,
    STOPPED,
    Gap,
    ViewProgress,
    ViewStatus,
)

_METRICS = "rejected"
_CAUGHT_UP_MS = 1000
_MAX_GAPS = 16  # of a view: the longest ones. The guard of tombstones looks at them every 10 s


def with_late_count(rejected: DataFrame) -> DataFrame:
    """Returns the same MALFORMED rows, and adds the number of late ones to the query's progress."""
    late = F.count_if(F.contains("reason", F.lit(f": {LATE}")))
    return rejected.observe(_METRICS, late.alias("late"))


class ProgressListener(StreamingQueryListener):
    """Listens to the queries ``<view>`` and ``<view>/dead-letters``.

    Spark reports a micro-batch after it is written and committed, never before. The methods run on
    Spark's listener thread, where an exception would be lost, so an error in writing the file
    becomes a ``ProgressNotWritten`` event.
    """

    def __init__(
        self,
        session: SparkSession,
        path: Path | None,
        views: Iterable[str],
        events: Events,
        intervals: Mapping[str, float] | None = None,
    ) -> None:
        """``path``: the file, or None. ``intervals``: the seconds between two reports of Spark, by
        view; 0 if it has none. Raises OSError if the file cannot be written."""
        self._streams = session.streams
        self._path = path
        self._views = {view: ViewProgress() for view in views}
        self._events = events
        self._begun: set[str] = set()
        self._caught_up: set[str] = set()
        self._running: set[str] = set()
        self._failures: dict[str, str] = {}  # query ► error
        self._final: set[str] = set()  # queries that are not started again
        self._paused: set[str] = set()  # views
        self._starting_again: set[str] = set()  # views
        self._stats: dict[str, dict[str, float]] = {}  # by view, of the last micro-batch
        self._names: dict[str, str] = {}  # query id ► query
        self._lock = threading.Lock()
        self._reported_dropped: Counter[str] = Counter()  # by view
        self._reported_at: dict[str, float] = {}  # view ► monotonic s
        self._intervals = intervals or {}
        self._is_writing = False  # whether the job itself writes keys of a view
        self._caught_up_at: dict[str, float] = {}  # view ► epoch s
        self._caught_up_boot: dict[str, float] = {}  # the same by `boot_time`
        self._gaps: defaultdict[str, list[Gap]] = defaultdict(list)
        self._gap_numbers = count(1)
        self._write()

    def failed(self, query: str, error: str, *, is_final: bool = False) -> None:
        """Call when the query failed. Its view is ``failed`` until the query makes progress; with
        ``is_final``, it stays ``failed`` even then, because reports of an earlier micro-batch may
        follow."""
        with self._lock:
            if is_final:
                self._final.add(query)
            self._failures.setdefault(query, error)
            self._starting_again.discard(query)
            self._views[view_of(query)].last_error = error
            self._update(query)

    def restarted(self, query: str) -> None:
        """Call when a failed query was started again."""
        with self._lock:
            self._views[view_of(query)].restarts += 1
            self._update(query)

    def paused(self, view: str) -> None:
        """Call when the view's queries are being stopped on command."""
        with self._lock:
            self._paused.add(view)
            self._starting_again.discard(view)
            self._update(view)

    def starting_again(self, view: str) -> None:
        """Call when the view's queries are being stopped, to be started again."""
        with self._lock:
            self._paused.discard(view)
            self._starting_again.add(view)
            self._update(view)

    def started_again(self, view: str) -> None:
        """Call when the view is started on command: its failures no longer count."""
        with self._lock:
            for query in queries_of(view):
                self._final.discard(query)
                self._failures.pop(query, None)
            self._reported_at[view] = time.monotonic()
            self._update(view)

    @contextmanager
    def writing_itself(self) -> Iterator[None]:
        """A context in which the job itself writes keys of a view, which may take any time. Views
        that must be started again wait for its end, and do not count as silent meanwhile."""
        with self._lock:
            self._is_writing = True
        try:
            yield
        finally:
            with self._lock:
                self._is_writing = False
                self._reported_at |= dict.fromkeys(self._starting_again, time.monotonic())

    def rebuilding(self, view: str) -> None:
        """Call when the view will read its sources from the start."""
        with self._lock:
            self._views[view].source_offsets = {}
            self._views[view].dead_letter_offsets = {}
            self._caught_up_at.pop(view, None)
            self._caught_up_boot.pop(view, None)
            self._gaps.pop(view, None)
            self._update(view)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        query = event.name or ""
        self._names[str(event.id)] = query
        with self._lock:
            self._running.add(query)
            self._starting_again.discard(query)
            self._reported_at.setdefault(view_of(query), time.monotonic())
            self._update(query)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._add(event.progress, is_batch=True, at=event.progress.timestamp)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        # A restarted query without new records has no micro-batch; only its last progress has the
        # offsets.
        query = self._streams.get(str(event.id))
        progress = query.lastProgress if query is not None else None
        if progress is not None:
            self._add(progress, is_batch=False, at=event.timestamp)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        query = self._names.get(str(event.id), "")
        with self._lock:
            self._running.discard(query)
            # A restarted query reports again that it has begun and that it has caught up.
            self._begun.discard(query)
            self._caught_up.discard(query)
            if event.exception is None:
                self._update(query)
            else:
                self._failures[query] = summary(event.exception)
        self._events.put(QueryEnded(query, event.exception))

    def statuses(self) -> dict[str, ViewStatus]:
        """The status of each view, by name; safe in any thread."""
        with self._lock:
            return {name: self._status(name, view) for name, view in self._views.items()}

    def _status(self, name: str, view: ViewProgress) -> ViewStatus:
        error = next((why for query, why in self._failures.items() if view_of(query) == name), None)
        reported_at = self._reported_at.get(name)
        if name in self._paused:
            state, error = PAUSED, None
        elif name in self._starting_again:
            state, error = STARTING, None
        elif error is not None:
            state = FAILED
        elif view.state == "done":
            state = STOPPED
        else:
            state = RUNNING if view.source_offsets else STARTING
        waits = self._is_writing and name in self._starting_again
        silent = None
        if reported_at is not None and not waits and state not in (STOPPED, PAUSED):
            due_at = reported_at + self._intervals.get(name, 0.0)
            silent = max(0.0, time.monotonic() - due_at)
        return ViewStatus(
            state,
            view.source_offsets,
            error,
            silent,
            self._caught_up_at.get(name),
            {**self._stats.get(name, {}), **counts_of(view)},
            tuple(self._gaps[name]),
        )

    def _note_caught_up(self, name: str, at: float) -> None:
        """Notes that the view had all records at the time ``at`` (epoch s)."""
        began, boot = self._caught_up_at.get(name), boot_time() - (time.time() - at)
        seconds = None if began is None else boot - self._caught_up_boot[name]
        self._caught_up_at[name], self._caught_up_boot[name] = at, boot
        if seconds is not None and seconds <= MIN_GAP_S:
            return
        gaps = self._gaps[name]
        gaps.append(Gap(next(self._gap_numbers), began, seconds, at))
        if len(gaps) > _MAX_GAPS:
            gaps.remove(min(gaps, key=lambda gap: math.inf if gap.seconds is None else gap.seconds))

    def _add(self, progress: StreamingQueryProgress, *, is_batch: bool, at: str) -> None:
        """``at``: when the query looked for new records, in ISO 8601."""
        query = progress.name or ""
        name = view_of(query)
        offsets: Positions = {}
        for source in progress.sources:
            offsets |= positions_of(json.loads(source.endOffset or "{}"))
        with self._lock:
            view = self._views[name]
            before = asdict(view)
            if query != name:
                view.dead_letter_offsets = offsets or view.dead_letter_offsets
                if is_batch:
                    view.dead_letters += max(progress.sink.numOutputRows, 0)
                    if observation := progress.observedMetrics.get(_METRICS):
                        view.late_rows += observation["late"]
            else:
                self._reported_at[name] = time.monotonic()
                # The micro-batch had all records that existed when it began, or there was none.
                if not is_batch or _read_to_the_end(progress):
                    self._note_caught_up(name, datetime.fromisoformat(at).timestamp())
                view.source_offsets = offsets or view.source_offsets
                if is_batch:
                    self._stats[name] = stats_of(progress)
                    view.input_rows += progress.numInputRows
                    view.dropped_rows += sum(
                        operator.numRowsDroppedByWatermark for operator in progress.stateOperators
                    )
                    self._report_dropped(name, view.dropped_rows)
            if query not in self._final:
                self._failures.pop(query, None)
            self._update(query, before)
        if query not in self._begun:
            self._begun.add(query)
            self._events.put(QueryBegan(query))
        if query not in self._caught_up and (
            not is_batch
            or progress.batchDuration < _CAUGHT_UP_MS
            or _read_to_the_end(progress)  # a batch in real-time mode always takes long
        ):
            self._caught_up.add(query)
            self._events.put(QueryCaughtUp(query))

    def _report_dropped(self, view: str, rows: int) -> None:
        """Reports the first row, and then each time that the number has doubled."""
        if rows and rows >= 2 * self._reported_dropped[view]:
            self._reported_dropped[view] = rows
            self._events.put(RowsDropped(view, rows))

    def _update(self, query: str, before: dict[str, Any] | None = None) -> None:
        """Sets the state of the query's view, and writes the file if the view differs from
        ``before``. The caller holds the lock."""
        name = view_of(query)
        view = self._views[name]
        view.is_final = any(view_of(final) == name for final in self._final)
        if name in self._paused:
            view.state = "paused"
        elif name in self._starting_again:
            view.state = "waiting"
        elif any(view_of(failed) == name for failed in self._failures):
            view.state = "failed"
        elif any(view_of(running) == name for running in self._running):
            view.state = "running"
        else:
            view.state = "done"
        if asdict(view) == before:
            return
        try:
            self._write()
        except OSError as error:
            self._events.put(ProgressNotWritten(error.strerror or str(error)))

    def _write(self) -> None:
        if self._path is None:
            return
        content = {name: asdict(view) for name, view in self._views.items()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(content, indent=1))
        temporary.replace(self._path)


def _read_to_the_end(progress: StreamingQueryProgress) -> bool:
    """Whether a micro-batch read all records that its sources had when it began."""
    ends = ((source.endOffset, source.latestOffset) for source in progress.sources)
    # A source that does not report its end has no JSON there.
    return all(end == latest or _reaches(end, latest) for end, latest in ends)


def _reaches(end: str | None, latest: str | None) -> bool:
    """Whether the end is at least the latest offset. In real-time mode it is later: a batch also
    reads what arrives while it runs."""
    try:
        ends = positions_of(json.loads(end or ""))
        return all(
            ends.get(topic, {}).get(partition, -1) >= offset
            for topic, offsets in positions_of(json.loads(latest or "")).items()
            for partition, offset in offsets.items()
        )
    except ValueError:
        return False
