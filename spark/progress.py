"""How far every view has come, for those who wait for it: a JSON file, rewritten atomically."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from spark.errors import summary

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


Event = Ended | Begun | CaughtUp | None

# as backends know them: backend.core.pipelines
STARTING, RUNNING, FAILED, STOPPED = "starting", "running", "failed", "stopped"


class Account(NamedTuple):
    """Of one view at this moment: its state, what was read of its sources, why a query of its
    failed, and for how many seconds Spark has said nothing of the view (None: not started)."""

    state: str
    offsets: Offsets
    error: str | None
    silent: float | None


@dataclass(slots=True)
class ViewProgress:
    """Of one view; counts are since this process started.

    ``source_offsets``: topic ► partition ► next offset; what is before it is in the view topic.
    ``input_rows``: records read. ``late_rows``: those that came too late, and were left out.
    ``dead_letters``: records written to the dead-letter topic, found before
    ``dead_letter_offsets``.
    """

    source_offsets: Offsets = field(default_factory=dict)
    input_rows: int = 0
    late_rows: int = 0
    dead_letters: int = 0
    dead_letter_offsets: Offsets = field(default_factory=dict)


class ProgressFile(StreamingQueryListener):
    """Follows the queries ``<view>`` and ``<view>/dead-letters``; ``path`` None keeps it in memory.

    Spark tells of a micro-batch after it is written and committed, never before. All this runs on
    Spark's listener thread, where an exception would be lost: it is passed on as an ``Ended``.
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
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()
        self._heard_at: dict[str, float] = {}  # of views
        self._failures: dict[str, str] = {}  # of queries
        self._done: set[str] = set()  # views whose query has ended as it should
        self._write()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        name = self._names[str(event.id)] = event.name or ""
        with self._lock:
            self._heard_at.setdefault(name.partition("/")[0], time.monotonic())
            self._done.discard(name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._add(event.progress, batch=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        # A restarted query that has nothing to do makes no micro-batch: where it goes on from is
        # told by its idle progress alone.
        query = self._streams.get(str(event.id))
        progress = query.lastProgress if query is not None else None
        if progress is not None:
            self._add(progress, batch=False)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        name = self._names.get(str(event.id), "")
        with self._lock:
            if event.exception is None:
                self._done.add(name)
            else:
                self._failures[name] = summary(event.exception)
        self._events.put(Ended(name, event.exception))

    def accounts(self) -> dict[str, Account]:
        """By view; for any thread."""
        with self._lock:
            return {name: self._account(name, view) for name, view in self._views.items()}

    def _account(self, name: str, view: ViewProgress) -> Account:
        errors = (self._failures.get(query) for query in (name, f"{name}/dead-letters"))
        error = next((each for each in errors if each), None)
        heard_at = self._heard_at.get(name)
        if error is not None:
            state = FAILED
        elif name in self._done:
            state = STOPPED
        else:
            state = RUNNING if view.source_offsets else STARTING
        silent = None if heard_at is None or state == STOPPED else time.monotonic() - heard_at
        return Account(state, view.source_offsets, error, silent)

    def _add(self, progress: StreamingQueryProgress, *, batch: bool) -> None:
        query = progress.name or ""
        name, _, dead_letters = query.partition("/")
        offsets: Offsets = {}
        for source in progress.sources:
            offsets |= json.loads(source.endOffset or "{}")
        with self._lock:
            if not dead_letters:
                self._heard_at[name] = time.monotonic()
            self._failures.pop(query, None)
            view = self._views[name]
            before = asdict(view)
            if dead_letters:
                view.dead_letter_offsets = offsets or view.dead_letter_offsets
                view.dead_letters += max(progress.sink.numOutputRows, 0) if batch else 0
            else:
                view.source_offsets = offsets or view.source_offsets
                if batch:
                    view.input_rows += progress.numInputRows
                    view.late_rows += sum(
                        operator.numRowsDroppedByWatermark for operator in progress.stateOperators
                    )
            if asdict(view) != before:
                self._write_or_end(query)
        if query not in self._begun:
            self._begun.add(query)
            self._events.put(Begun(query))
        if query not in self._caught_up and (not batch or progress.batchDuration < 1000):
            self._caught_up.add(query)
            self._events.put(CaughtUp(query))

    def _write_or_end(self, query: str) -> None:
        try:
            self._write()
        except OSError as error:
            self._events.put(Ended(query, f"cannot write {self._path}: {error.strerror or error}"))

    def _write(self) -> None:
        if self._path is None:
            return
        content = {name: asdict(view) for name, view in self._views.items()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        beside.write_text(json.dumps(content, indent=1))
        beside.replace(self._path)
