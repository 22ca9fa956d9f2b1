"""A new store partition begins with a copy of another instance's, where that is faster than a
replay; Kafka fills the gap from the copy's position on.

In a thread of its own, one copy at a time. Whatever goes wrong, the replay does it.
"""

from __future__ import annotations

import http.client
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from backend.ingest.lifecycle.orphan_cleanup import Unit
from backend.ingest.topic_metadata import TopicMetadata
from backend.wire.signing import sign
from backend.wire.snapshot import PATH, CopyError, receive
from model.topology import Member
from model.views import View

log = logging.getLogger(__name__)

_SILENCE = 10.0


class CopyFolder(Protocol):
    """Where copies are received, and become store partitions."""

    def exists(self, view: str, partition: int) -> bool: ...

    def new_copy(self, view: str, partition: int) -> Path: ...

    def adopt(self, copy: Path, view: str, partition: int) -> None: ...

    def discard(self, copy: Path) -> None: ...


@dataclass
class Copying:
    """How far one is."""

    done: bool = False
    source: str = ""
    received: int = 0  # bytes


class SnapshotFetcher:
    """Fetches copies that ingest asks for."""

    def __init__(
        self,
        folder: CopyFolder,
        holders: Callable[[str, int], Sequence[Member]],
        secret: Callable[[], str],
        threshold: int,
        silence: float = _SILENCE,
    ) -> None:
        """`holders(view, partition)`: whom to ask, best first; `threshold`: records from which a
        copy is made; `silence` (s): without a byte, after which the next one is asked."""
        self._folder = folder
        self._holders = holders
        self._secret = secret
        self._threshold = threshold
        self._silence = silence
        self._asked: queue.SimpleQueue[tuple[View, int] | None] = queue.SimpleQueue()
        self._copies: dict[Unit, Copying] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="copier", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """One that is under way is given up."""
        self._stop.set()
        self._asked.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)

    def has_ended(self, view: View, partition: int, facts: TopicMetadata) -> bool:
        """Whether the store partition can be opened: asks for a copy, the first time, if it has to
        be made and one is worth it; True once that is there, or cannot be had."""
        unit = (view.name, partition)
        copying = self._copies.get(unit)
        if copying is not None:
            return copying.done
        records = facts.ends[partition] - facts.starts[partition]
        if (
            records < self._threshold
            or view.is_custom
            or view.persistence == "memory"
            or self._folder.exists(*unit)
            or not self._holders(*unit)
        ):
            return True
        self._copies[unit] = Copying()
        self._asked.put((view, partition))
        return False

    def keep(self, wanted: Set[Unit]) -> None:
        """What is open, or not wanted any more, is copied anew should it be opened anew one day."""
        for unit in self._copies.keys() - wanted:
            del self._copies[unit]

    def under_way(self) -> dict[Unit, Copying]:
        return {unit: copying for unit, copying in list(self._copies.items()) if not copying.done}

    def _run(self) -> None:
        while not self._stop.is_set():
            asked = self._asked.get()
            if asked is None:
                return
            view, partition = asked
            copying = self._copies.get((view.name, partition))
            if copying is None:
                continue
            for member in self._holders(view.name, partition):
                if self._stop.is_set() or self._try(view, partition, member, copying):
                    break
            copying.done = True

    def _try(self, view: View, partition: int, member: Member, copying: Copying) -> bool:
        unit = (view.name, partition)
        began = time.monotonic()
        copying.source, copying.received = member.id, 0
        copy: Path | None = None
        try:
            copy = self._folder.new_copy(*unit)
            size = self._receive(view, partition, member, copy, copying)
            self._folder.adopt(copy, *unit)
        except Exception as e:
            # whatever is wrong with the other one, its files or this disk: the replay is always
            # there, if this thread is
            log.warning("view %s, partition %d: no copy of %s's: %s", *unit, member.id, e)
            if copy is not None:
                self._folder.discard(copy)
            return False
        log.info(
            "view %s, partition %d: %d bytes copied from %s in %.1f s",
            *unit, size, member.id, time.monotonic() - began,
        )  # fmt: skip
        return True

    def _receive(
        self, view: View, partition: int, member: Member, copy: Path, copying: Copying
    ) -> int:
        asked = {"view": view.name, "hash": view.hash, "partition": partition}
        connection = http.client.HTTPConnection(member.host, member.port, timeout=self._silence)

        def progress(received: int) -> None:
            if self._stop.is_set():
                raise CopyError("this instance stops")
            copying.received = received

        try:
            connection.request("POST", PATH, sign(orjson.dumps(asked), self._secret()))
            answer = connection.getresponse()
            if answer.status != 200:
                raise CopyError(f"it answers {answer.status}: {answer.read(2000)!r}")
            return receive(
                answer.read, answer.readline, lambda name: (copy / name).open("xb"), progress
            )
        finally:
            connection.close()
