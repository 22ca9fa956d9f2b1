"""Fetches snapshots of store partitions from other instances.

A new store partition starts from a snapshot if that is faster than a replay, or if the topic may
lack tombstones that the other instance has read. Ingest then continues from the snapshot's
position. Each of two threads fetches one snapshot at a time. If no instance can send one, the topic
is replayed.

An instance that is busy with other snapshots is asked again. An instance that is still catching up
is also asked again, but not by the active. So when new instances start together, each replays only
the partitions for which it is the active, and copies the others.
"""

from __future__ import annotations

import logging
import queue
import ssl
import threading
import time
from bisect import insort
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Protocol

import orjson

from backend.ingest.metadata.topic_metadata import TopicMetadata
from backend.ingest.store_partitions import StorePartition, StorePartitionId
from backend.security.signatures import Signer
from backend.wire.answer import code_in
from backend.wire.snapshot import PATH, SnapshotError, receive, seconds_left
from model.http.answers import TLS
from model.http.requests import opened
from model.progress import CATCHING_UP
from model.topology import ACTIVE, Member
from model.views import View

log = logging.getLogger(__name__)

_READ_TIMEOUT = 10.0  # s
_RETRY_AFTER = 10.0  # s
_THREADS = 2
# s until an instance is asked again, and s to add for each other partition that waits in the thread
_ASK_AGAIN_AFTER, _ASK_AGAIN_AFTER_EACH = 0.1, 0.04
# if it has said how long it will take, it is asked after half of that time, within limits (s): the
# minimum, s to add to it for each other partition that waits, and the maximum
_ASK_SOON_AFTER, _ASK_SOON_AFTER_EACH, _ASK_AT_LATEST_AFTER = 0.04, 0.02, 1.0
_MAX_WAIT = {"overloaded": 600.0, CATCHING_UP: 60.0}  # s, by the code of the problem
_MAX_PROBLEM_BYTES = 2000
_MAX_READ = 0.2  # share of a log; if more was read, the replay goes on


class AskAgain(SnapshotError):
    """The other instance has the store partition, but cannot send it now. `code`: see _MAX_WAIT.
    `seconds_left`: until it may send it; None if unknown."""

    def __init__(self, code: str, message: str, seconds_left: float | None) -> None:
        super().__init__(message)
        self.code = code
        self.seconds_left = seconds_left


class SnapshotDirectory(Protocol):
    """Receives snapshots and installs them as stores."""

    def exists(self, view: str, partition: int) -> bool: ...

    def new_snapshot(self, view: str, partition: int) -> Path: ...

    def install(self, snapshot: Path, view: str, partition: int) -> None: ...

    def discard(self, snapshot: Path) -> None: ...


@dataclass
class SnapshotTransfer:
    """The progress of one transfer. `may_wait`: whether to wait for an instance that is catching
    up. `is_waiting`: whether instances are asked again later. `seconds_left`: the time until each
    may send a snapshot, as it has said; None if unknown."""

    may_wait: bool = False
    waits_since: float | None = None  # s, monotonic
    is_waiting: bool = False
    seconds_left: Sequence[float | None] = ()
    done: bool = False
    ended_at: float = 0.0  # s, monotonic
    installed_at: float = 0.0  # s, monotonic; 0.0 without a snapshot
    source: str = ""
    received: int = 0  # bytes


_Request = tuple[View, int, SnapshotTransfer]


class SnapshotFetcher:
    """Fetches the snapshots that ingest requests."""

    def __init__(
        self,
        directory: SnapshotDirectory,
        sources: Callable[[str, int], Sequence[Member]],
        signer: Signer | None,
        threshold: int,
        read_timeout: float = _READ_TIMEOUT,
        tls: TLS = ssl.create_default_context,
        may_be_in_several: Callable[[View], bool] = lambda view: False,
    ) -> None:
        """`sources(view, partition)`: the instances to ask, best first. `signer`: None without a
        cluster secret. `threshold`: minimum number of records for a snapshot. `read_timeout`: s
        for the head of an answer, and s without a byte of its body, after which the next instance
        is asked. `tls()`: the context for instances with https. `may_be_in_several(view)`: whether
        keys of the view may be in several partitions."""
        self._directory = directory
        self._sources = sources
        self._signer = signer
        self._threshold = threshold
        self._tls = tls
        self._may_be_in_several = may_be_in_several
        self._read_timeout = read_timeout
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._transfers: dict[StorePartitionId, SnapshotTransfer] = {}
        self._fetching: set[StorePartitionId] = set()
        self._lock = threading.Lock()  # for `_fetching`
        self._stop = threading.Event()
        # for each thread: the time to ask again (s, monotonic) and the request, sorted by time
        self._waiting: list[list[tuple[float, _Request]]] = [[] for _ in range(_THREADS)]
        self._threads = [
            threading.Thread(
                target=self._run, args=[waiting], name=f"snapshot-fetcher-{number}", daemon=True
            )
            for number, waiting in enumerate(self._waiting)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float) -> None:
        """Abort the current transfers and end the threads. `timeout`: s for all together."""
        self._stop.set()
        ends_at = time.monotonic() + timeout
        for _ in self._threads:
            self._requests.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, ends_at - time.monotonic()))

    def has_ended(
        self,
        view: View,
        partition: int,
        topic_metadata: TopicMetadata,
        may_wait: bool = False,
    ) -> bool:
        """Whether the store partition can be opened now. `may_wait`: whether to wait for an
        instance that is catching up; the active does not.

        The first call requests a snapshot if one is needed. Returns True if the snapshot has been
        installed or has failed, or if none is needed.
        """
        partition_id = (view.name, partition)
        transfer = self._transfers.get(partition_id)
        if transfer is not None:
            transfer.may_wait = may_wait
            return transfer.done
        may_request = self.may_request(view, partition, topic_metadata)
        if not may_request or self._directory.exists(*partition_id):
            return True
        transfer = SnapshotTransfer(may_wait)
        self._transfers[partition_id] = transfer
        self._requests.put((view, partition, transfer))
        return False

    def may_request(self, view: View, partition: int, topic_metadata: TopicMetadata) -> bool:
        """Whether `has_ended` requests a snapshot once there is no store on the disk. False after a
        transfer, also if it has failed."""
        return (
            (view.name, partition) not in self._transfers
            and self._needs_snapshot(view, partition, topic_metadata)
            and not view.is_custom
            and view.persistence != "memory"
            and self.has_source(view, partition)
        )

    def has_source(self, view: View, partition: int) -> bool:
        """Whether another instance has the store partition, or is assigned it."""
        return bool(self._sources(view.name, partition))

    def is_better(self, opened: StorePartition, topic_metadata: TopicMetadata | None) -> bool:
        """Whether a snapshot is better than what a store partition has read so far.

        It is better if the instance was alone, has just begun to read a long log, and is a standby
        now: instances that start together may join the group one after the other.
        """
        view, partition = opened.view, opened.partition
        if (
            not opened.opened_alone
            or opened.role == ACTIVE
            or opened.progress.answerable
            or topic_metadata is None
            or partition not in topic_metadata.ends
            or view.push is not None
        ):
            return False
        start, end = topic_metadata.starts[partition], topic_metadata.ends[partition]
        has_read = opened.progress.position - start
        return has_read < _MAX_READ * (end - start) and self.may_request(
            view, partition, topic_metadata
        )

    def _needs_snapshot(self, view: View, partition: int, topic_metadata: TopicMetadata) -> bool:
        records = topic_metadata.ends[partition] - topic_metadata.starts[partition]
        is_compacted = topic_metadata.delete_retention is not None
        return (
            records >= self._threshold
            # a view with pushes cannot be made from its topic alone
            or view.push is not None
            # the delete of a key may be gone from one partition, and its value still be in another
            or (is_compacted and records > 0 and self._may_be_in_several(view))
        )

    def installed_at(self, view: View, partition: int) -> float:
        """When a snapshot of a store partition was installed (s, monotonic); 0.0 if none was."""
        transfer = self._transfers.get((view.name, partition))
        return 0.0 if transfer is None else transfer.installed_at

    def retry(self, view: View, partition: int) -> None:
        """Forget a transfer that has ended some seconds ago, so that `has_ended` requests another
        one: for a store partition that cannot be opened without a snapshot."""
        transfer = self._transfers.get((view.name, partition))
        if (
            transfer is not None
            and transfer.done
            and time.monotonic() - transfer.ended_at >= _RETRY_AFTER
        ):
            del self._transfers[view.name, partition]

    def forget(self, view: str, partition: int) -> None:
        """Forget the transfer of a store partition, so that `has_ended` requests another one."""
        self._transfers.pop((view, partition), None)

    def keep(self, assigned: Set[StorePartitionId]) -> None:
        """Forget the transfers of all other store partitions, so that a snapshot can be fetched
        again when they are assigned again."""
        for partition_id in self._transfers.keys() - assigned:
            del self._transfers[partition_id]

    def under_way(self) -> dict[StorePartitionId, SnapshotTransfer]:
        """The transfers that have not ended."""
        return {
            partition_id: transfer
            for partition_id, transfer in list(self._transfers.items())
            if not transfer.done
        }

    def _run(self, waiting: list[tuple[float, _Request]]) -> None:
        while not self._stop.is_set():
            request = self._next_request(waiting)
            if request is None:
                return
            view, partition, transfer = request
            if not self._is_wanted(view, partition, transfer):
                continue
            if self._fetch_alone(view, partition, transfer):
                transfer.ended_at = time.monotonic()
                transfer.done = True
            else:
                transfer.is_waiting = True
                waiting_count = len(waiting)
                pauses = [
                    _pause(seconds_left, waiting_count)
                    for seconds_left in transfer.seconds_left or [None]
                ]
                ask_at = time.monotonic() + min(pauses)
                insort(waiting, (ask_at, request), key=itemgetter(0))

    def _next_request(self, waiting: list[tuple[float, _Request]]) -> _Request | None:
        """Wait for the next request. Returns None when the thread must end."""
        timeout = None
        if waiting:
            timeout = max(0.0, waiting[0][0] - time.monotonic())
        try:
            return self._requests.get(timeout=timeout)
        except queue.Empty:
            return waiting.pop(0)[1]

    def _is_wanted(self, view: View, partition: int, transfer: SnapshotTransfer) -> bool:
        """False if the transfer was forgotten; there may be another one."""
        return self._transfers.get((view.name, partition)) is transfer

    def _fetch_alone(self, view: View, partition: int, transfer: SnapshotTransfer) -> bool:
        """Call `_fetch`. Returns its result, or False if the other thread has not ended an earlier
        transfer of this store partition yet."""
        partition_id = (view.name, partition)
        with self._lock:
            if partition_id in self._fetching:
                return False
            self._fetching.add(partition_id)
        try:
            return self._fetch(view, partition, transfer)
        finally:
            with self._lock:
                self._fetching.discard(partition_id)

    def _fetch(self, view: View, partition: int, transfer: SnapshotTransfer) -> bool:
        """Fetch a snapshot from the first instance that can send one. Returns False if another
        instance must be asked again."""
        waits_for, left = 0.0, list[float | None]()
        for member in self._sources(view.name, partition):
            try:
                if self._stop.is_set() or not self._is_wanted(view, partition, transfer):
                    return True
                if self._fetch_from(view, partition, member, transfer):
                    transfer.installed_at = time.monotonic()
                    return True
            except AskAgain as e:
                if transfer.may_wait or e.code != CATCHING_UP:
                    waits_for = max(waits_for, _MAX_WAIT[e.code])
                    left.append(e.seconds_left)
                if not transfer.is_waiting:
                    log.info("view %s, partition %d: %s", view.name, partition, e)
        transfer.seconds_left = left
        now = time.monotonic()
        # the wait does not begin at the request: the partitions before this one may have taken long
        transfer.waits_since = transfer.waits_since or now
        return now - transfer.waits_since >= waits_for

    def _fetch_from(
        self, view: View, partition: int, member: Member, transfer: SnapshotTransfer
    ) -> bool:
        partition_id = (view.name, partition)
        started_at = time.monotonic()
        transfer.source, transfer.received = member.id, 0
        snapshot: Path | None = None
        try:
            snapshot = self._directory.new_snapshot(*partition_id)
            size = self._receive(view, partition, member, snapshot, transfer)
            self._directory.install(snapshot, *partition_id)
        except Exception as e:
            # any error of the other instance, of its files or of this disk
            if snapshot is not None:
                self._directory.discard(snapshot)
            if isinstance(e, AskAgain):
                raise
            log.warning(
                "view %s, partition %d: no snapshot from %s: %s", *partition_id, member.id, e
            )
            return False
        log.info(
            "view %s, partition %d: received a snapshot of %d bytes from %s in %.2f s",
            *partition_id, size, member.id, time.monotonic() - started_at,
        )  # fmt: skip
        return True

    def _receive(
        self, view: View, partition: int, member: Member, snapshot: Path, transfer: SnapshotTransfer
    ) -> int:
        request = {"view": view.name, "hash": view.hash, "partition": partition}
        body = orjson.dumps(request)
        headers: dict[str, str] = {}
        mac = None
        if self._signer is not None:
            signed = self._signer.sign("POST", PATH.encode(), member.id, body)
            headers, mac = signed.headers, signed.answer_mac()

        def progress(received: int) -> None:
            if self._stop.is_set():
                raise SnapshotError("this instance is stopping")
            if not self._is_wanted(view, partition, transfer):
                raise SnapshotError("it is no longer needed")
            transfer.received = received

        url, timeout = member.origin + PATH, self._read_timeout
        with opened(url, timeout, timeout, body=body, headers=headers, tls=self._tls) as answer:
            if answer.status != 200:
                problem = answer.read(_MAX_PROBLEM_BYTES)
                code = code_in(problem)
                if code in _MAX_WAIT:
                    message = f"{member.id} cannot send a snapshot yet: {code}"
                    raise AskAgain(code, message, seconds_left(problem))
                raise SnapshotError(f"status {answer.status}: {problem!r}")
            transfer.is_waiting = False
            return receive(
                answer.read1,  # so that `progress` is called for each packet
                answer.readline,
                lambda name: (snapshot / name).open("xb"),
                progress,
                mac,
            )


def _pause(seconds_left: float | None, waiting_count: int) -> float:
    """The time (s) until an instance is asked again. `waiting_count`: requests that wait in this
    thread. Each question takes CPU of both instances. But a copy that is requested late also
    answers later."""
    if seconds_left is None:
        return _ASK_AGAIN_AFTER + _ASK_AGAIN_AFTER_EACH * waiting_count
    least = _ASK_SOON_AFTER + _ASK_SOON_AFTER_EACH * waiting_count
    return min(max(seconds_left / 2, least), max(least, _ASK_AT_LATEST_AFTER))
