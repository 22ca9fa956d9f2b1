"""Reports once a second, also while idle, that the job runs, and the progress of each view: as
committed offsets of one consumer group per view, and as a file for ``spark.health``.

The offsets are the ends of the finished micro-batches, so every Kafka tool shows the view's lag.
The metadata of the source's partition 0 is the heartbeat, which backends read
(``model.pipelines.status``). A failure here neither ends nor delays the job: it is logged, and the
next heartbeat follows a second later. If the brokers refuse a group, the other views go on.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from spark.checkpoints.positions import Positions
from spark.kafka_admin import Commit, EndOffsets, TopicPartition
from spark.supervision.commands import PipelineCommands
from spark.supervision.status import RUNNING, STARTING, STOPPED, ViewStatus
from spark.supervision.whole_logs import HighWatermarks, WholeLogs
from spark.view import View

_INTERVAL_S = 1.0
_COMMIT_ALL_INTERVAL_S = 600.0  # Kafka deletes offsets that were not committed for a week
_JOIN_TIMEOUT_S = 10.0  # for the thread's last heartbeat
_WARNING_INTERVAL_S = 30.0  # between two warnings
_MAX_ERROR_CHARACTERS = 300  # brokers accept 4,096 bytes of metadata


class ConsumerGroups(Protocol):
    """The brokers' consumer groups (``spark.kafka_admin``). Both methods raise OSError or
    Py4JError, or TimeoutError if the brokers do not answer."""

    def committed(self, group: str) -> dict[TopicPartition, int]: ...

    def commit(self, commits: Mapping[str, Commit]) -> dict[str, OSError]: ...


class Heartbeats:
    """Sends heartbeats in a thread; a context manager around the queries."""

    def __init__(
        self,
        groups: ConsumerGroups,
        views: list[View],
        prefix: str,
        statuses: Callable[[], Mapping[str, ViewStatus]],
        health: Path | None,
        log: Callable[[str], None],
        commands: PipelineCommands | None = None,
        high_watermarks: HighWatermarks = lambda _: lambda: EndOffsets({}, True),
    ) -> None:
        """A view's consumer group is ``prefix`` + its name. ``health``: a file, or None.
        ``commands``: None if the job follows none."""
        self._whole_logs = WholeLogs(views, high_watermarks)
        self._commands = commands
        self._groups = groups
        self._views = {view.name: view for view in views}
        self._prefix = prefix
        self._statuses = statuses
        self._health = health
        self._log = log
        self._initial: dict[str, dict[TopicPartition, int]] = {}  # committed at the start, by view
        self._committed: dict[str, Positions] = {}
        self._all_committed_at = float("-inf")
        self._warned_at = float("-inf")
        self._is_ending = False
        self._error: str | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def __enter__(self) -> Heartbeats:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.ending(error)
        self._stop.set()
        self._wake.set()
        self._thread.join(_JOIN_TIMEOUT_S)

    def ending(self, error: BaseException | None = None) -> None:
        """Call when the job is about to end. ``error``: the reason if it failed. Sends a heartbeat
        immediately, because ending may take some seconds."""
        self._is_ending = True
        if error is not None and self._error is None:
            self._error = (str(error) or type(error).__name__)[:_MAX_ERROR_CHARACTERS]
        self._wake.set()

    def _run(self) -> None:
        while True:
            is_last = self._stop.is_set()
            try:
                self._try(self.beat, "commit the views' offsets")
                if is_last:
                    return
                if self._commands is not None:
                    self._try(self._commands.poll, "get commands")
            except Py4JNetworkError:
                return  # the JVM and all queries have ended
            self._wake.wait(_INTERVAL_S)
            self._wake.clear()

    def _try(self, step: Callable[[], None], what: str) -> None:
        try:
            step()
        except Py4JNetworkError:
            raise
        except (OSError, Py4JError) as error:
            self._warn(f"warning: cannot {what}: {error}")

    def beat(self) -> None:
        """Sends one heartbeat for every view. Waits only for the views' groups: readers consider a
        job stopped after 2.8 s without a heartbeat."""
        statuses = {name: self._final(status) for name, status in self._statuses().items()}
        try:
            self._write_health(statuses)
        except OSError as error:
            self._warn(f"warning: cannot write {self._health}: {error}")
        try:
            self._whole_logs.update({name: status.offsets for name, status in statuses.items()})
        except (OSError, Py4JJavaError) as error:
            self._warn(f"warning: cannot read the ends of the sources: {error}")
        now = time.monotonic()
        commit_all = now - self._all_committed_at >= _COMMIT_ALL_INTERVAL_S
        commits: dict[str, Commit] = {}
        refused: dict[str, OSError] = {}  # by group
        for name, status in statuses.items():
            group = self._prefix + name
            try:
                commits[group] = self._commit(name, status, commit_all)
            except TimeoutError:
                raise
            except OSError as error:
                refused[group] = error
        refused |= self._groups.commit(commits)
        for name, status in statuses.items():
            why = refused.get(self._prefix + name)
            if why is None:
                self._committed[name] = status.offsets
            else:
                self._committed.pop(name, None)
                self._warn(f"warning: cannot commit the offsets of {name}: {why}")
        if commit_all:
            self._all_committed_at = now

    def _final(self, status: ViewStatus) -> ViewStatus:
        if not self._is_ending:
            return status
        return status._replace(state=STOPPED, error=status.error or self._error)

    def _commit(self, name: str, status: ViewStatus, commit_all: bool) -> Commit:
        offsets = {
            TopicPartition(topic, partition): offset
            for topic, by_partition in status.offsets.items()
            for partition, offset in by_partition.items()
            if commit_all or self._committed.get(name, {}).get(topic, {}).get(partition) != offset
        }
        first = TopicPartition(self._views[name].streams[0].topic, 0)
        offset = status.offsets.get(first.topic, {}).get(first.partition)
        if offset is None:
            if name not in self._initial:
                self._initial[name] = self._groups.committed(self._prefix + name)
            offset = self._initial[name].get(first, 0)
            # The view's offsets are not known yet. The group's offsets may belong to another
            # checkpoint.
            if status.state == RUNNING:
                status = status._replace(state=STARTING)
        heartbeat: dict[str, object] = {"state": status.state, "at": time.time_ns() // 1_000_000}
        if (caught_up_at := self._whole_logs.had_all_at(name)) is not None:
            heartbeat["caught_up_at"] = int(caught_up_at * 1000)
        if status.moved_keys_since is not None:
            heartbeat["moved_keys_since"] = int(status.moved_keys_since * 1000)
        if status.stats:
            heartbeat["stats"] = status.stats
        if self._commands is not None:
            heartbeat |= self._commands.heartbeat_fields(name)
        if status.error:
            heartbeat["error"] = status.error[:_MAX_ERROR_CHARACTERS]
        commit = {partition: (offset, "") for partition, offset in offsets.items()}
        commit[first] = (offset, json.dumps(heartbeat))
        return commit

    def _write_health(self, statuses: Mapping[str, ViewStatus]) -> None:
        if self._health is None:
            return
        views = {
            name: {"state": status.state, "silent_seconds": status.silent, "error": status.error}
            for name, status in statuses.items()
        }
        temporary = self._health.with_name(f".{self._health.name}.{os.getpid()}")
        self._health.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({"at": time.time(), "views": views}, indent=1))
        temporary.replace(self._health)

    def _warn(self, text: str) -> None:
        now = time.monotonic()
        if now - self._warned_at >= _WARNING_INTERVAL_S:
            self._warned_at = now
            self._log(text)
