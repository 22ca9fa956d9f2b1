"""Fetches snapshots of store partitions from other instances.

A new store partition starts from a snapshot if that is faster than a replay, or if the topic may
lack tombstones that the other instance has read. Ingest then continues from the snapshot's
position. One thread fetches one snapshot at a time. If no instance can send one, the topic is
replayed.
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

from backend.ingest.store_partitions import StorePartitionId
from backend.ingest.topic_metadata import TopicMetadata
from backend.security.certificates import Certificates
from backend.security.signatures import Signer
from backend.wire.snapshot import PATH, SnapshotError, receive
from model.topology import Member
from model.views import View

log = logging.getLogger(__name__)

_READ_TIMEOUT = 10.0  # s
_RETRY_AFTER = 10.0  # s


class SnapshotDirectory(Protocol):
    """Receives snapshots and installs them as stores."""

    def exists(self, view: str, partition: int) -> bool: ...

    def new_snapshot(self, view: str, partition: int) -> Path: ...

    def install(self, snapshot: Path, view: str, partition: int) -> None: ...

    def discard(self, snapshot: Path) -> None: ...


@dataclass
class SnapshotTransfer:
    """The progress of one transfer."""

    done: bool = False
    ended_at: float = 0.0  # s, monotonic
    source: str = ""
    received: int = 0  # bytes


class SnapshotFetcher:
    """Fetches the snapshots that ingest requests."""

    def __init__(
        self,
        directory: SnapshotDirectory,
        sources: Callable[[str, int], Sequence[Member]],
        signer: Signer | None,
        threshold: int,
        read_timeout: float = _READ_TIMEOUT,
        connect: Callable[[Member, float], http.client.HTTPConnection] | None = None,
        may_be_in_several: Callable[[View], bool] = lambda view: False,
    ) -> None:
        """`sources(view, partition)`: the instances to ask, best first. `signer`: None without a
        cluster secret. `threshold`: minimum number of records for a snapshot. `read_timeout`: s
        without a byte, after which the next instance is asked. `connect(member, timeout)`: see
        Certificates.connection. `may_be_in_several(view)`: whether keys of the view may be in
        several partitions."""
        self._directory = directory
        self._sources = sources
        self._signer = signer
        self._threshold = threshold
        self._connect = connect or Certificates().connection
        self._may_be_in_several = may_be_in_several
        self._read_timeout = read_timeout
        self._requests: queue.SimpleQueue[tuple[View, int] | None] = queue.SimpleQueue()
        self._transfers: dict[StorePartitionId, SnapshotTransfer] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshot-fetcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Abort the current transfer and end the thread."""
        self._stop.set()
        self._requests.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)

    def has_ended(self, view: View, partition: int, topic_metadata: TopicMetadata) -> bool:
        """Whether the store partition can be opened now.

        The first call requests a snapshot if one is needed. True if it has been installed or has
        failed, or if none is needed.
        """
        partition_id = (view.name, partition)
        transfer = self._transfers.get(partition_id)
        if transfer is not None:
            return transfer.done
        if (
            not self._needs_snapshot(view, partition, topic_metadata)
            or view.is_custom
            or view.persistence == "memory"
            or self._directory.exists(*partition_id)
            or not self._sources(*partition_id)
        ):
            return True
        self._transfers[partition_id] = SnapshotTransfer()
        self._requests.put((view, partition))
        return False

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

    def ended_at(self, view: View, partition: int) -> float:
        """When the transfer for a store partition ended (s, monotonic); 0.0 if there was none."""
        transfer = self._transfers.get((view.name, partition))
        return 0.0 if transfer is None else transfer.ended_at

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

    def _run(self) -> None:
        while not self._stop.is_set():
            request = self._requests.get()
            if request is None:
                return
            view, partition = request
            transfer = self._transfers.get((view.name, partition))
            if transfer is None:
                continue
            for member in self._sources(view.name, partition):
                if self._stop.is_set() or self._fetch_from(view, partition, member, transfer):
                    break
            transfer.ended_at = time.monotonic()
            transfer.done = True

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
            log.warning(
                "view %s, partition %d: no snapshot from %s: %s", *partition_id, member.id, e
            )
            if snapshot is not None:
                self._directory.discard(snapshot)
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
        connection = self._connect(member, self._read_timeout)

        def progress(received: int) -> None:
            if self._stop.is_set():
                raise SnapshotError("this instance is stopping")
            transfer.received = received

        try:
            connection.request("POST", PATH, body, headers)
            response = connection.getresponse()
            if response.status != 200:
                raise SnapshotError(f"status {response.status}: {response.read(2000)!r}")
            return receive(
                response.read,
                response.readline,
                lambda name: (snapshot / name).open("xb"),
                progress,
                mac,
            )
        finally:
            connection.close()
