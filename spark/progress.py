"""How far every view has come, for those who wait for it: a JSON file, rewritten atomically."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

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

from spark.errors import summary
from spark.event_time import LATE

Offsets = dict[str, dict[str, int]]


class Ended(NamedTuple):
    """A query has ended; ``error`` is what Spark says of it, None where nothing went wrong."""

    query: str
    error: str | None


class Begun(NamedTuple):
    """A query has made its first micro-batch, or found that there was nothing to do."""

    query: str


class CaughtUp(NamedTuple):
    """A query had nothing left to read, or took less than a second to do it."""

    query: str


class Dropped(NamedTuple):
    """Spark has dropped so many rows of a view though they were not late, since this start."""

    view: str
    rows: int


class Unwritable(NamedTuple):
    """The progress file can no longer be written."""

    reason: str


Event = Ended | Begun | CaughtUp | Dropped | Unwritable | None

# as backends know them: model.pipelines
STARTING, RUNNING, FAILED, STOPPED = "starting", "running", "failed", "stopped"


class Account(NamedTuple):
    """Of one view at this moment: its state, what was read of its sources, why a query of its
    failed, for how many seconds Spark has said nothing of the view (None: not started), and when
    it last had read all there was (epoch s; None: not since this start)."""

    state: str
    offsets: Offsets
    error: str | None
    silent: float | None
    caught_up_at: float | None = None


_METRICS = "rejected"


def with_late_ones(rejected: DataFrame) -> DataFrame:
    """The same MALFORMED rows; Spark tells how many of them are late."""
    late = F.count_if(F.contains("reason", F.lit(f": {LATE}")))
    return rejected.observe(_METRICS, late.alias("late"))


@dataclass(slots=True)
class ViewProgress:
    """Of one view; counts are since this process started.

    ``state``: ``waiting`` for its turn, ``running``, ``failed`` (a query of the view failed and has
    made no progress since) or ``done``. ``restarts``: how often its queries were started again
    after they failed; ``last_error``: the last one's text.
    ``source_offsets``: topic ► partition ► next offset; what is before it is in the view topic.
    ``input_rows``: records read. ``dropped_rows``: those that Spark dropped though they were not
    late, for their timestamps were out of order by more than ``spark.watermarks.DISORDER``.
    ``dead_letters``: records written to the dead-letter topic, found before
    ``dead_letter_offsets``. ``late_rows``: those of them that came too late.
    """

    state: str = "waiting"
    restarts: int = 0
    last_error: str | None = None
    source_offsets: Offsets = field(default_factory=dict)
    input_rows: int = 0
    dropped_rows: int = 0
    late_rows: int = 0
    dead_letters: int = 0
    dead_letter_offsets: Offsets = field(default_factory=dict)


def _took_all(progress: StreamingQueryProgress) -> bool:
    """Whether a micro-batch was up to the ends of its sources as it began."""
    ends = ((source.endOffset, source.latestOffset) for source in progress.sources)
    # a source that does not tell its end has no JSON there
    return all(one == other or _same_json(one, other) for one, other in ends)


def _same_json(one: str | None, other: str | None) -> bool:
    try:
        return bool(json.loads(one or "") == json.loads(other or ""))
    except ValueError:
        return False


class ProgressFile(StreamingQueryListener):
    """Follows the queries ``<view>`` and ``<view>/dead-letters``; ``path`` None keeps it in memory.

    Spark tells of a micro-batch after it is written and committed, never before. All this runs on
    Spark's listener thread, where an exception would be lost: it is passed on as ``Unwritable``.
    """

    def __init__(
        self,
        session: SparkSession,
        path: Path | None,
        views: list[str],
        events: SimpleQueue[Event],
    ) -> None:
        self._streams = session.streams
        self._path = path
        self._views = {view: ViewProgress() for view in views}
        self._events = events
        self._begun: set[str] = set()
        self._caught_up: set[str] = set()
        self._running: set[str] = set()
        self._failing: dict[str, str] = {}  # query ► why
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()
        self._said_dropped: Counter[str] = Counter()  # by view
        self._heard_at: dict[str, float] = {}  # view ► s, monotonic
        self._caught_up_at: dict[str, float] = {}  # view ► epoch s
        self._write()

    def failed(self, query: str, error: str) -> None:
        """A query failed; it is ``failed`` until it makes progress again."""
        with self._lock:
            self._failing.setdefault(query, error)
            self._views[_view(query)].last_error = error
            self._update(query)

    def started_again(self, query: str) -> None:
        """A query that had failed was started again."""
        with self._lock:
            self._views[_view(query)].restarts += 1
            self._update(query)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        query = event.name or ""
        self._names[str(event.id)] = query
        with self._lock:
            self._running.add(query)
            self._heard_at.setdefault(_view(query), time.monotonic())
            self._update(query)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._add(event.progress, batch=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        # A restarted query that has nothing to do makes no micro-batch: where it goes on from is
        # told by its idle progress alone.
        query = self._streams.get(str(event.id))
        progress = query.lastProgress if query is not None else None
        if progress is not None:
            self._add(progress, batch=False, at=event.timestamp)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        query = self._names.get(str(event.id), "")
        with self._lock:
            self._running.discard(query)
            # If it is started again, it reports its progress again.
            self._begun.discard(query)
            self._caught_up.discard(query)
            if event.exception is None:
                self._update(query)
            else:
                self._failing[query] = summary(event.exception)
        self._events.put(Ended(query, event.exception))

    def accounts(self) -> dict[str, Account]:
        """By view; for any thread."""
        with self._lock:
            return {name: self._account(name, view) for name, view in self._views.items()}

    def _account(self, name: str, view: ViewProgress) -> Account:
        error = next((why for query, why in self._failing.items() if _view(query) == name), None)
        heard_at = self._heard_at.get(name)
        if error is not None:
            state = FAILED
        elif view.state == "done":
            state = STOPPED
        else:
            state = RUNNING if view.source_offsets else STARTING
        silent = None if heard_at is None or state == STOPPED else time.monotonic() - heard_at
        return Account(state, view.source_offsets, error, silent, self._caught_up_at.get(name))

    def _add(self, progress: StreamingQueryProgress, *, batch: bool, at: str = "") -> None:
        """`at`: of an idle query, when there was nothing to read."""
        query = progress.name or ""
        offsets: Offsets = {}
        for source in progress.sources:
            offsets |= json.loads(source.endOffset or "{}")
        with self._lock:
            view = self._views[_view(query)]
            before = asdict(view)
            if "/" in query:
                view.dead_letter_offsets = offsets or view.dead_letter_offsets
                if batch:
                    view.dead_letters += max(progress.sink.numOutputRows, 0)
                    if observation := progress.observedMetrics.get(_METRICS):
                        view.late_rows += observation["late"]
            else:
                self._heard_at[_view(query)] = time.monotonic()
                # The micro-batch took all records that existed when it began, or none are left.
                if not batch or _took_all(progress):
                    began = datetime.fromisoformat(at or progress.timestamp)
                    self._caught_up_at[_view(query)] = began.timestamp()
                view.source_offsets = offsets or view.source_offsets
                if batch:
                    view.input_rows += progress.numInputRows
                    view.dropped_rows += sum(
                        operator.numRowsDroppedByWatermark for operator in progress.stateOperators
                    )
                    self._say_dropped(_view(query), view.dropped_rows)
            self._failing.pop(query, None)
            self._update(query, before)
        if query not in self._begun:
            self._begun.add(query)
            self._events.put(Begun(query))
        if query not in self._caught_up and (not batch or progress.batchDuration < 1000):
            self._caught_up.add(query)
            self._events.put(CaughtUp(query))

    def _say_dropped(self, view: str, rows: int) -> None:
        """At once, and then each time that there are twice as many."""
        if rows and rows >= 2 * self._said_dropped[view]:
            self._said_dropped[view] = rows
            self._events.put(Dropped(view, rows))

    def _update(self, query: str, before: dict[str, Any] | None = None) -> None:
        """Sets the state of the query's view, and writes the file if it says something else now.

        ``before``: what it says. The lock is held.
        """
        name = _view(query)
        view = self._views[name]
        if any(_view(failing) == name for failing in self._failing):
            view.state = "failed"
        elif any(_view(running) == name for running in self._running):
            view.state = "running"
        else:
            view.state = "done"
        if asdict(view) == before:
            return
        try:
            self._write()
        except OSError as error:
            self._events.put(Unwritable(error.strerror or str(error)))

    def _write(self) -> None:
        if self._path is None:
            return
        content = {name: asdict(view) for name, view in self._views.items()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        beside.write_text(json.dumps(content, indent=1))
        beside.replace(self._path)


def _view(query: str) -> str:
    return query.partition("/")[0]
