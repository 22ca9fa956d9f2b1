"""Tells how far each view is and that the job lives, once a second and also when there is nothing
to do: as committed offsets of one consumer group a view, and as a file for `spark.health`.

The offsets are what finished micro-batches have read of the source, so every Kafka tool shows the
view's lag. The metadata of the source's partition 0 is the heartbeat, which backends read
(`model.pipelines`). A failure here does not end or slow the job: it is logged, and the next
heartbeat comes a second later.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from py4j.protocol import Py4JError, Py4JNetworkError

from spark.progress import STARTING, STOPPED, Account, Offsets
from spark.view import View

_EVERY = 1.0  # s
_ALL_AGAIN = 600.0  # s; a group forgets offsets that are not committed for a week
_JOIN = 10.0  # s for the thread's last turn
_SAY_EVERY = 30.0  # s between two lines about trouble
_LONGEST = 300  # characters of an error; a broker takes 4,096 bytes of metadata


class Unit(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


Commit = Mapping[Unit, tuple[int, str]]
"""Offset and metadata."""


class Groups(Protocol):
    """The broker's consumer groups; `spark.broker.Broker`. Both raise OSError or Py4JError."""

    def committed(self, group: str) -> dict[Unit, int]: ...

    def commit(self, commits: Mapping[str, Commit]) -> None: ...


class Heartbeats:
    """Use as a context manager around the queries; one thread."""

    def __init__(
        self,
        groups: Groups,
        views: list[View],
        prefix: str,
        accounts: Callable[[], Mapping[str, Account]],
        health: Path | None,
        say: Callable[[str], None],
    ) -> None:
        """`prefix` + a view's name is its consumer group. `health`: a file, or None."""
        self._groups = groups
        self._views = {view.name: view for view in views}
        self._prefix = prefix
        self._accounts = accounts
        self._health = health
        self._say = say
        self._before: dict[str, dict[Unit, int]] = {}  # what groups had at the start, by view
        self._committed: dict[str, Offsets] = {}
        self._all_at = float("-inf")
        self._said_at = float("-inf")
        self._is_over = False
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
        self.over(error)
        self._stop.set()
        self._wake.set()
        self._thread.join(_JOIN)

    def over(self, error: BaseException | None = None) -> None:
        """The job is about to end: said at once, for the end itself may take a while."""
        self._is_over = True
        if error is not None and self._error is None:
            self._error = (str(error) or type(error).__name__)[:_LONGEST]
        self._wake.set()

    def _run(self) -> None:
        while True:
            is_last = self._stop.is_set()
            try:
                self.beat()
            except Py4JNetworkError:
                return  # the JVM has ended, and with it all there is to tell of
            except (OSError, Py4JError) as error:
                self._say_sometimes(f"warning: how far the views are cannot be told: {error}")
            if is_last:
                return
            self._wake.wait(_EVERY)
            self._wake.clear()

    def beat(self) -> None:
        """One heartbeat of every view."""
        accounts = {name: self._final(account) for name, account in self._accounts().items()}
        try:
            self._write_health(accounts)
        except OSError as error:
            self._say_sometimes(f"warning: {self._health} cannot be written: {error}")
        now = time.monotonic()
        everything = now - self._all_at >= _ALL_AGAIN
        commits = {
            self._prefix + name: self._commit(name, account, everything)
            for name, account in accounts.items()
        }
        self._groups.commit(commits)
        self._committed = {name: account.offsets for name, account in accounts.items()}
        if everything:
            self._all_at = now

    def _final(self, account: Account) -> Account:
        if not self._is_over:
            return account
        return account._replace(state=STOPPED, error=account.error or self._error)

    def _commit(self, name: str, account: Account, everything: bool) -> Commit:
        offsets = {
            Unit(topic, int(partition)): offset
            for topic, of_topic in account.offsets.items()
            for partition, offset in of_topic.items()
            if everything or self._committed.get(name, {}).get(topic, {}).get(partition) != offset
        }
        first = Unit(self._views[name].source, 0)
        known = account.offsets.get(first.topic, {}).get(str(first.partition))
        if known is None:
            if name not in self._before:
                self._before[name] = self._groups.committed(self._prefix + name)
            known = self._before[name].get(first, 0)
            # not known yet: the offsets of the group may be of another checkpoint
            account = account._replace(state=STARTING if account.state != STOPPED else STOPPED)
        told: dict[str, object] = {"state": account.state, "at": time.time_ns() // 1_000_000}
        if account.caught_up_at is not None:
            told["caught_up_at"] = int(account.caught_up_at * 1000)
        if account.error:
            told["error"] = account.error[:_LONGEST]
        commit = {unit: (offset, "") for unit, offset in offsets.items()}
        commit[first] = (known, json.dumps(told))
        return commit

    def _write_health(self, accounts: Mapping[str, Account]) -> None:
        if self._health is None:
            return
        views = {
            name: {"state": each.state, "silent_seconds": each.silent, "error": each.error}
            for name, each in accounts.items()
        }
        beside = self._health.with_name(f".{self._health.name}.{os.getpid()}")
        self._health.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps({"at": time.time(), "views": views}, indent=1))
        beside.replace(self._health)

    def _say_sometimes(self, text: str) -> None:
        now = time.monotonic()
        if now - self._said_at >= _SAY_EVERY:
            self._said_at = now
            self._say(text)
