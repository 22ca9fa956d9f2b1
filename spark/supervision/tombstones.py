"""Stops a view of a table that may have missed tombstones, and refuses to continue it.

Compaction removes a tombstone ``delete.retention.ms`` after it has cleaned the records before it.
A view that was behind for longer may never see it, and would keep the row forever. So the
checkpoint has the time when the view had last read all records.

A first load or a rebuild may take longer. It then ends with a warning, because a row may have been
deleted after the job had read it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark.checkpoints.files import CheckpointFiles
from spark.errors import (
    JobError,
    Unavailable,
    long_load,
    missed_tombstones,
    summary,
    unknown_retention,
)
from spark.formats.decoders import is_table
from spark.kafka_admin import KafkaAdmin
from spark.settings import Settings
from spark.supervision.status import MIN_GAP_S, STOPPED, Gap, ViewStatus
from spark.view import View

_INTERVAL_S = 60.0  # between two writes, also after one that failed
# the time for which a view may be behind with any ``delete.retention.ms``, because it is behind
# whenever its query starts again
_TOLERATED_S = MIN_GAP_S
_DEFAULT_RETENTION_S = 86_400.0  # Kafka's default of ``delete.retention.ms``


class TombstoneGuard:
    """Checks the views of tables before each start and while they run, and stores when they were
    current."""

    def __init__(
        self,
        session: SparkSession,
        admin: KafkaAdmin,
        settings: Settings,
        statuses: Callable[[], Mapping[str, ViewStatus]],
        log: Callable[[str], None],
    ) -> None:
        self._checkpoints = CheckpointFiles(session)
        self._admin = admin
        self._is_once = settings.once
        self._statuses = statuses
        self._log = log
        self._started_at = time.time()
        self._folders = {
            view.name: settings.checkpoint(view) for view in settings.views if _tables(view)
        }
        self._tables = {view.name: _tables(view) for view in settings.views}
        self._stored: dict[str, float] = {}  # by view that was started
        self._not_before: dict[str, float] = {}  # by view whose time could not be stored
        # views that this process has started from the beginning, and that have not been current
        self._loading: set[str] = set()
        self._asked: set[str] = set()  # topics whose settings the job has asked for
        # by view that has missed tombstones while it ran: when it was last current before that
        self._missed: dict[str, float] = {}
        # by view: the number of the last gap that was compared with `delete.retention.ms`
        self._compared: dict[str, int] = {}

    def check(self, view: View) -> None:
        """Call before each start of a view. Raises ``JobError`` if it may have missed
        tombstones."""
        if view.name not in self._folders:
            return
        self._warn_of_unknown(view)
        document = self._checkpoints.read_json(self._file(view.name))
        if document is None:
            self.begin(view.name)
            return
        if view.name in self._loading and not self._current_at(view.name):
            return  # its first load continues, which may take any time
        self._stored[view.name] = document["current_at"] / 1000
        if (too_long := self._too_long_gap(view.name)) is not None:
            raise too_long[1]
        self._missed.pop(view.name, None)

    def missed(self, views: Iterable[View]) -> dict[str, str]:
        """The running views that may have missed tombstones since their start ► the reason. A view
        is returned once for each start. A first load may take any time."""
        reasons = {}
        for view in views:
            name = view.name
            is_loading = name in self._loading and not self._current_at(name)
            if name not in self._stored or name in self._missed or is_loading or self._is_once:
                continue
            with suppress(Unavailable):
                if (too_long := self._too_long_gap(name)) is not None:
                    self._missed[name], error = too_long
                    reasons[name] = str(error)
        return reasons

    def _too_long_gap(self, name: str) -> tuple[float, JobError] | None:
        """The start (epoch s) of the first gap in which the view may have missed tombstones, and
        the error; None if there is no such gap. Raises ``Unavailable``: then the gaps are compared
        the next time."""
        ended = self._ended_gaps(name)
        began = self._last_current_at(name)
        gaps = [(began, time.time() - began)]
        for gap in ended:
            began = self._stored[name] if gap.began is None else gap.began
            gaps.append((began, gap.ended - began if gap.seconds is None else gap.seconds))
        for began, behind in gaps:
            for topic in self._tables[name] if behind > _TOLERATED_S else ():
                retention, is_known = self._retention(topic)
                if behind > retention:
                    folder = self._folders[name]
                    error = missed_tombstones(name, topic, behind, retention, folder, is_known)
                    return began, error
        if ended:
            self._compared[name] = ended[-1].number
        return None

    def _ended_gaps(self, name: str) -> list[Gap]:
        """The ended gaps that were not compared yet. A first load is not among them, because it may
        take any time."""
        if self._is_once:
            return []
        after = self._compared.get(name, 0)
        return [
            gap
            for gap in self._statuses()[name].gaps
            if gap.number > after and (gap.began is not None or name not in self._loading)
        ]

    def _retention(self, topic: str) -> tuple[float, bool]:
        """The time (s) for which the topic keeps tombstones, and whether it is known. If not, the
        time is Kafka's default. Raises ``Unavailable``."""
        retention = self._admin.config(topic, "delete.retention.ms")
        if retention is None:
            return _DEFAULT_RETENTION_S, False
        if "compact" not in (self._admin.config(topic, "cleanup.policy") or ""):
            return math.inf, True
        return int(retention) / 1000, True

    def _warn_of_unknown(self, view: View) -> None:
        """Warns, once for each topic, if the job may not read how long the topic keeps
        tombstones."""
        for topic in self._tables[view.name]:
            if topic in self._asked:
                continue
            with suppress(Unavailable):
                _, is_known = self._retention(topic)
                self._asked.add(topic)
                if not is_known:
                    self._log(unknown_retention(view.name, topic, _DEFAULT_RETENTION_S))

    def _warn_of_long_load(self, name: str, seconds: float) -> None:
        """Warns if a load took so long that the view may have missed tombstones."""
        for topic in self._tables[name]:
            try:
                retention, _ = self._retention(topic)
            except Unavailable:
                retention = _DEFAULT_RETENTION_S
            if seconds > max(retention, _TOLERATED_S):
                self._log(long_load(name, topic, seconds, retention))

    def _last_current_at(self, name: str) -> float:
        return self._missed.get(name) or max(self._stored[name], self._current_at(name))

    def keep(self, *, is_last: bool = False) -> None:
        """Stores the times at which the views were current, at most once a minute each.

        A time that cannot be stored is stored later: the view does not need it while it runs.
        """
        brokers_answer = True
        for name, stored in list(self._stored.items()):
            current_at = self._current_at(
                name
            )  # read first, because the view may catch up meanwhile
            if name in self._missed:
                continue
            if self._ended_gaps(name):  # another process would not know of them
                try:
                    if not brokers_answer or self._too_long_gap(name) is not None:
                        continue
                except Unavailable:
                    brokers_answer = False
                    continue
            step = 0.0 if is_last or name in self._loading else _INTERVAL_S
            is_due = current_at > stored + step
            if is_due and (is_last or time.time() >= self._not_before.get(name, 0.0)):
                load_began = stored if name in self._loading else None
                try:
                    self._store(name, current_at)
                except (PySparkException, Py4JJavaError) as error:
                    self._not_before[name] = time.time() + _INTERVAL_S
                    why = summary(str(error))
                    self._log(f"warning: {name}: cannot store when it was current yet: {why}")
                else:
                    if load_began is not None:
                        self._warn_of_long_load(name, time.time() - load_began)

    def begin(self, name: str) -> None:
        """Call when the view will read its sources from their start. Raises PySparkException,
        Py4JJavaError."""
        if name in self._folders:
            self._store(name, time.time())
            self._loading.add(name)
            self._missed.pop(name, None)
            numbers = [gap.number for gap in self._statuses()[name].gaps]
            self._compared[name] = max(numbers, default=self._compared.get(name, 0))

    def _current_at(self, name: str) -> float:
        """When the view had last read all records (epoch s); 0 if it has not since this start."""
        status = self._statuses()[name]
        if self._is_once and status.state == STOPPED and status.error is None:
            return max(status.caught_up_at or 0.0, self._started_at)
        return status.caught_up_at or 0.0

    def _store(self, name: str, current_at: float) -> None:
        self._checkpoints.replace_json(self._file(name), {"current_at": round(current_at * 1000)})
        self._loading.discard(name)
        self._stored[name] = current_at

    def _file(self, name: str) -> str:
        return f"{self._folders[name]}/tables.json"


def _tables(view: View) -> list[str]:
    return [source.topic for source in view.streams if is_table(source.decoder)]
