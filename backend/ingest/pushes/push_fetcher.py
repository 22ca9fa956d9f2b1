"""Looks for new pushes, and fetches the files of the partitions of this instance.

One thread looks into the folders of pushes, downloads files, verifies them and makes a store of
them in a folder of its own. Ingest installs it: see `candidates`. A push that cannot be read or
does not fit changes nothing: the store partition keeps its store, and the status says why.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from backend.ingest.metadata.topic_metadata import TopicMetadata, rebuild_reason
from backend.ingest.pushes.content_check import Scanner, check_content
from backend.ingest.pushes.remote_folder import RemoteFolder
from backend.ingest.store_partitions import StorePartitionId
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.pushes.manifest import Manifest, push_url
from model.records import StoreMetadata
from model.views import View

log = logging.getLogger(__name__)

_RETRY_AFTER = 5.0  # s after the first failure; doubled after each further one
_MAX_RETRY_AFTER = 60.0
_INTERVAL = 0.5  # s between two looks into the folder of a view's pushes
_FREE_SPACE = 1.2  # times the size of the files


class PushDirectory(Protocol):
    """Makes stores of pushed files."""

    def exists(self, view: str, partition: int) -> bool: ...

    def new_snapshot(self, view: str, partition: int) -> Path: ...

    def build(
        self,
        snapshot: Path,
        files: list[Path],
        position: int,
        metadata: StoreMetadata,
        check: Callable[[Any], None],
    ) -> None: ...

    def install(self, snapshot: Path, view: str, partition: int) -> None: ...

    def discard(self, snapshot: Path) -> None: ...


@dataclass
class PushState:
    """The newest push of a view, as far as it is known."""

    folder: RemoteFolder
    was_read: bool = False  # the folder has been read at least once
    push: str | None = None  # the id of the newest push
    manifest: Manifest | None = None  # of the newest push that fits the view
    mismatch: str | None = None  # why the newest push does not fit
    read_error: str | None = None  # error of the last look into the folder


@dataclass
class PushTransfer:
    """The files of one partition, from the request to the installation."""

    manifest: Manifest
    installs: bool  # whether it becomes the store of a partition without one
    store: Path | None = None  # the folder of the store made of the files
    received: int = 0  # bytes
    error: str | None = None  # of the last attempt
    unusable: str | None = None  # why ingest could not continue from the push
    failures: int = 0
    retry_at: float = 0.0  # s, monotonic


class PushFetcher:
    """Fetches the pushes that ingest requests. Only the ingest thread may call `has_ended`, `take`
    and `keep`."""

    def __init__(
        self,
        folders: dict[str, str],
        views: Iterable[View],
        directory: PushDirectory,
        interval: float,
    ) -> None:
        """`folders`: view -> URL of its pushes. `interval`: s between two looks into a folder."""
        self._views = {view.name: view for view in views if view.name in folders}
        self.states = {name: PushState(RemoteFolder(folders[name])) for name in self._views}
        self._directory = directory
        self._interval = interval
        self._watched: frozenset[str] = frozenset()
        self.transfers: dict[StorePartitionId, PushTransfer] = {}
        self._handing_over = threading.Lock()  # held while ingest gets a fetched store
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._log = RateLimitedLog(log)
        self._thread = threading.Thread(target=self._run, name="push-fetcher", daemon=True)

    @staticmethod
    def for_views(
        views: Iterable[View],
        views_file: Path,
        directory: PushDirectory,
        interval: float = _INTERVAL,
    ) -> PushFetcher:
        """A fetcher for the views that have pushes. `views_file`: folders are relative to it."""
        with_pushes = [view for view in views if view.push is not None]
        folders = {view.name: push_url(view.push or "", views_file) for view in with_pushes}
        return PushFetcher(folders, with_pushes, directory, interval)

    def start(self) -> None:
        if self._views:
            self._thread.start()

    def stop(self, timeout: float) -> None:
        """Abort the current transfer and end the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    # the ingest thread

    def keep(self, assigned: Set[StorePartitionId]) -> None:
        """Forget the transfers of all other store partitions. Watch the views of `assigned`."""
        if not self._views:
            return
        self._watched = frozenset(view for view, _ in assigned) & self._views.keys()
        for partition_id in self.transfers.keys() - assigned:
            self._forget(partition_id)

    def has_ended(self, view: View, partition: int, topic_metadata: TopicMetadata) -> bool:
        """Whether a store partition can be opened now. If it has no store, it gets the newest
        push first, because its topic does not have the pushed entries."""
        state = self.states.get(view.name)
        if state is None or self._directory.exists(view.name, partition):
            return True
        manifest = state.manifest
        if not state.was_read or (manifest is None and (state.push or state.read_error)):
            return False
        if manifest is None or partition >= manifest.pinned.partitions:
            return True
        self._request(view, partition, manifest, topic_metadata, installs=True)
        return False

    def partitions(self, view: View) -> int | None:
        """The number of partitions that the topic had at the newest push; None without a push.

        A store of a partition that was added later counts as built with this number, so that a key
        that it does not have is not an answer: the push has the key in its earlier partition.
        """
        state = self.states.get(view.name)
        manifest = None if state is None else state.manifest
        return None if manifest is None else manifest.pinned.partitions

    def is_blocked(self, view: View, partition: int) -> bool:
        """Whether the push that a store partition waits for is not known or cannot be fetched."""
        transfer = self.transfers.get((view.name, partition))
        return transfer is None or bool(transfer.unusable or transfer.error)

    def take(
        self, view: View, partition: int, installed: str, topic_metadata: TopicMetadata
    ) -> Path | None:
        """The store with the newest push, for a store partition that has the push `installed`. None
        if `installed` is already the newest push, or if the store is not ready."""
        state = self.states.get(view.name)
        manifest = None if state is None else state.manifest
        if (
            manifest is None
            or manifest.push == installed
            or partition >= manifest.pinned.partitions
        ):
            self._forget((view.name, partition))
            return None
        transfer = self._request(view, partition, manifest, topic_metadata, installs=False)
        if transfer is None or transfer.store is None:
            return None
        del self.transfers[view.name, partition]
        return transfer.store

    def put_back(self, view: View, partition: int, error: str) -> None:
        """Fetch the newest push again later, because the store made of it could not be used."""
        manifest = self.states[view.name].manifest
        if manifest is not None:
            self.transfers[view.name, partition] = PushTransfer(
                manifest,
                installs=False,
                error=error,
                failures=1,
                retry_at=time.monotonic() + _RETRY_AFTER,
            )

    def _request(
        self,
        view: View,
        partition: int,
        manifest: Manifest,
        topic_metadata: TopicMetadata,
        installs: bool,
    ) -> PushTransfer | None:
        partition_id = (view.name, partition)
        transfer = self.transfers.get(partition_id)
        if transfer is not None and (
            transfer.manifest.push != manifest.push or transfer.installs != installs
        ):
            self._forget(partition_id)
            transfer = None
        if transfer is None:
            transfer = self.transfers[partition_id] = PushTransfer(manifest, installs)
            self._wake.set()
        transfer.unusable = _unusable(view, partition, manifest, topic_metadata, installs)
        if transfer.unusable is not None:
            self._log.warn(
                f"{view.name}/{partition}",
                f"view {view.name}, partition {partition}: push {manifest.push} cannot be used: "
                f"{transfer.unusable}. Push the view again",
            )
            return None
        return transfer

    def _forget(self, partition_id: StorePartitionId) -> None:
        with self._handing_over:
            transfer = self.transfers.pop(partition_id, None)
        if transfer is not None and transfer.store is not None:
            self._directory.discard(transfer.store)

    # the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            for name in self._watched:
                self.look(name)
            self.fetch_requested()
            self._wake.wait(self._interval)
            self._wake.clear()

    def look(self, name: str) -> None:
        """Read which push of the view is the newest, and its manifest."""
        state, view = self.states[name], self._views[name]
        try:
            push = state.folder.current()
            if push is None:
                state.manifest = state.mismatch = None
            elif push != state.push:
                manifest = state.folder.manifest(push)
                state.mismatch = manifest.mismatch(view)
                if state.mismatch is None:
                    state.manifest = manifest
                    log.info("view %s: the newest push is %s", name, push)
                else:
                    log.error(
                        "view %s: push %s does not fit the view: %s", name, push, state.mismatch
                    )
            state.push, state.was_read, state.read_error = push, True, None
        except Exception as e:  # any error of the file system
            state.read_error = f"{type(e).__name__}: {e}"
            self._log.warn(name, f"view {name}: {state.folder.url}: {state.read_error}")

    def fetch_requested(self) -> None:
        """Fetch what ingest has requested."""
        for partition_id, transfer in list(self.transfers.items()):
            if self._stop.is_set():
                return
            waits = transfer.unusable is not None or time.monotonic() < transfer.retry_at
            if transfer.store is None and not waits:
                self._fetch(partition_id, transfer)

    def _fetch(self, partition_id: StorePartitionId, transfer: PushTransfer) -> None:
        view, (name, partition) = self._views[partition_id[0]], partition_id
        push, started_at = transfer.manifest.push, time.monotonic()
        snapshot: Path | None = None
        try:
            snapshot = self._directory.new_snapshot(name, partition)
            self._download(view, partition, transfer, snapshot)
            if transfer.installs:
                self._directory.install(snapshot, name, partition)
        except Exception as e:  # any error of the file system, of the files or of this disk
            if snapshot is not None:
                self._directory.discard(snapshot)
            transfer.error = f"{type(e).__name__}: {e}"
            delay = min(_RETRY_AFTER * 2**transfer.failures, _MAX_RETRY_AFTER)
            transfer.failures, transfer.received = transfer.failures + 1, 0
            transfer.retry_at = time.monotonic() + delay
            log.error(
                "view %s, partition %d: push %s cannot be installed: %s", name, partition, push,
                transfer.error,
            )  # fmt: skip
            return
        log.info(
            "view %s, partition %d: fetched %d bytes of push %s in %.2f s", name, partition,
            transfer.received, push, time.monotonic() - started_at,
        )  # fmt: skip
        transfer.error = None
        if transfer.installs:
            self.transfers.pop(partition_id, None)
            return
        with self._handing_over:
            # from here on, ingest may take the store
            is_wanted = self.transfers.get(partition_id) is transfer
            transfer.store = snapshot if is_wanted else None
        if not is_wanted:
            self._directory.discard(snapshot)

    def _download(self, view: View, partition: int, transfer: PushTransfer, snapshot: Path) -> None:
        manifest = transfer.manifest
        files = manifest.files_of(partition)
        needed, free = sum(file.size for file in files), shutil.disk_usage(snapshot).free
        if needed * _FREE_SPACE > free:
            raise OSError(f"{needed} bytes are needed, and {free} are free on the disk")
        incoming = snapshot / "incoming"
        incoming.mkdir()

        def progress(received: int) -> None:
            if self._stop.is_set():
                raise OSError("this instance is stopping")
            transfer.received += received

        folder = self.states[view.name].folder
        for file in files:
            folder.download(manifest.push, file, incoming / file.name, progress)

        def check(store: Scanner) -> None:
            check_content(store, view, partition, manifest.pinned.partitions, files)

        self._directory.build(
            snapshot,
            [incoming / file.name for file in files],
            manifest.position(partition),
            _metadata(view, manifest, time.time_ns() // 1_000_000),
            check,
        )
        incoming.rmdir()

    # the status

    def documents(self, views: Iterable[str]) -> list[dict[str, Any]]:
        """The newest push of each view, and what prevents its installation."""
        documents = []
        for name in views:
            if (state := self.states.get(name)) is None:
                continue
            transfers = [
                {
                    "partition": partition,
                    "received_bytes": transfer.received,
                    "error": transfer.unusable or transfer.error,
                }
                for (view, partition), transfer in sorted(self.transfers.items())
                if view == name
            ]
            documents.append(
                {
                    "view": name,
                    "push": state.push,
                    "error": state.read_error or state.mismatch,
                    "transfers": transfers,
                }
            )
        return documents


def _metadata(view: View, manifest: Manifest, alive_at: int) -> StoreMetadata:
    """The metadata of a store that is made of a push."""
    return StoreMetadata(
        view_hash=view.hash,
        topic_id=manifest.pinned.topic_id,
        partitions=manifest.pinned.partitions,
        leader_epoch=-1,
        answerable=False,
        mispartitioned=0,
        dead_letters=0,
        alive_at=alive_at,
        complete_at=manifest.pinned.at_ms,
        push=manifest.push,
    )


def _unusable(
    view: View, partition: int, manifest: Manifest, topic_metadata: TopicMetadata, installs: bool
) -> str | None:
    """Why ingest cannot continue from the push's offsets; None if it can. `installs`: there is no
    store yet."""
    metadata = _metadata(view, manifest, manifest.pinned.at_ms)
    position = manifest.position(partition)
    now_ms = time.time_ns() // 1_000_000
    if manifest.pinned.partitions > topic_metadata.partitions:
        return f"topic {view.topic} has fewer partitions than the push"
    if manifest.pinned.partitions < topic_metadata.partitions and not installs:
        # a key of the push would be in another partition than the one that is asked for it
        return f"partitions were added to topic {view.topic} after its offsets were pinned"
    return rebuild_reason(view, partition, position, metadata, topic_metadata, now_ms)
