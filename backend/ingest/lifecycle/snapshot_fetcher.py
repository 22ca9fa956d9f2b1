"""Fetches snapshots of store partitions from other instances.

A new store partition starts from a snapshot if that is faster than a replay; ingest then continues
from the snapshot's position. One thread fetches one snapshot at a time. If it fails, the topic is
replayed instead.
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
from backend.wire.snapshot import PATH, SnapshotError, receive
from model.topology import Member
from model.views import View

log = logging.getLogger(__name__)

_SILENCE = 10.0


class SnapshotFolder(Protocol):
    """Receives snapshots and installs them as stores."""

    def exists(self, view: str, partition: int) -> bool: ...

    def new_snapshot(self, view: str, partition: int) -> Path: ...

    def install(self, copy: Path, view: str, partition: int) -> None: ...

    def discard(self, copy: Path) -> None: ...


@dataclass
class SnapshotTransfer:
    """The progress of one transfer."""

    done: bool = False
    source: str = ""
    received: int = 0  # bytes


class SnapshotFetcher:
    """Fetches the snapshots that ingest requests."""

    def __init__(
        self,
        folder: SnapshotFolder,
        holders: Callable[[str, int], Sequence[Member]],
        secret: Callable[[], str],
        threshold: int,
        silence: float = _SILENCE,
    ) -> None:
        """`holders(view, partition)`: the instances to ask, best first. `threshold`: minimum number
        of records for a snapshot. `silence`: s without a byte after which the next one is asked."""
        self._folder = folder
        self._holders = holders
        self._secret = secret
        self._threshold = threshold
        self._silence = silence
        self._asked: queue.SimpleQueue[tuple[View, int] | None] = queue.SimpleQueue()
        self._transfers: dict[Unit, SnapshotTransfer] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshot-fetcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Abort the current transfer and end the thread."""
        self._stop.set()
        self._asked.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)

    def has_ended(self, view: View, partition: int, topic_metadata: TopicMetadata) -> bool:
        """Whether the store partition can be opened now.

        The first call requests a snapshot, if one is worth it. True once it is installed, or has
        failed, or if none is needed.
        """
        unit = (view.name, partition)
        transfer = self._transfers.get(unit)
        if transfer is not None:
            return transfer.done
        records = topic_metadata.ends[partition] - topic_metadata.starts[partition]
        if (
            records < self._threshold
            or view.is_custom
            or view.persistence == "memory"
            or self._folder.exists(*unit)
            or not self._holders(*unit)
        ):
            return True
        self._transfers[unit] = SnapshotTransfer()
        self._asked.put((view, partition))
        return False

    def keep(self, wanted: Set[Unit]) -> None:
        """Forget the transfers of all other store partitions, so that a later open can fetch one
        again."""
        for unit in self._transfers.keys() - wanted:
            del self._transfers[unit]

    def under_way(self) -> dict[Unit, SnapshotTransfer]:
        return {
            unit: transfer for unit, transfer in list(self._transfers.items()) if not transfer.done
        }

    def _run(self) -> None:
        while not self._stop.is_set():
            asked = self._asked.get()
            if asked is None:
                return
            view, partition = asked
            transfer = self._transfers.get((view.name, partition))
            if transfer is None:
                continue
            for member in self._holders(view.name, partition):
                if self._stop.is_set() or self._try(view, partition, member, transfer):
                    break
            transfer.done = True

    def _try(self, view: View, partition: int, member: Member, transfer: SnapshotTransfer) -> bool:
        unit = (view.name, partition)
        began = time.monotonic()
        transfer.source, transfer.received = member.id, 0
        copy: Path | None = None
        try:
            copy = self._folder.new_snapshot(*unit)
            size = self._receive(view, partition, member, copy, transfer)
            self._folder.install(copy, *unit)
        except Exception as e:
            # any error of the other instance, its files or this disk: fall back to a replay
            log.warning("view %s, partition %d: no snapshot from %s: %s", *unit, member.id, e)
            if copy is not None:
                self._folder.discard(copy)
            return False
        log.info(
            "view %s, partition %d: received a snapshot of %d bytes from %s in %.1f s",
            *unit, size, member.id, time.monotonic() - began,
        )  # fmt: skip
        return True

    def _receive(
        self, view: View, partition: int, member: Member, copy: Path, transfer: SnapshotTransfer
    ) -> int:
        asked = {"view": view.name, "hash": view.hash, "partition": partition}
        connection = http.client.HTTPConnection(member.host, member.port, timeout=self._silence)

        def progress(received: int) -> None:
            if self._stop.is_set():
                raise SnapshotError("this instance is stopping")
            transfer.received = received

        try:
            connection.request("POST", PATH, sign(orjson.dumps(asked), self._secret()))
            answer = connection.getresponse()
            if answer.status != 200:
                raise SnapshotError(f"status {answer.status}: {answer.read(2000)!r}")
            return receive(
                answer.read, answer.readline, lambda name: (copy / name).open("xb"), progress
            )
        finally:
            connection.close()
