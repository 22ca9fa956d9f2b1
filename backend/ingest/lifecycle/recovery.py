"""Opens a store partition: continues with the stored data, or starts from an empty store."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from backend.ingest.indexes.partition_indexes import open_indexes
from backend.ingest.lifecycle.missed_tombstones import Completeness
from backend.ingest.metadata.topic_metadata import TopicMetadata, rebuild_reason
from backend.ingest.protocols import Store, StoreDirectory
from backend.ingest.store_partitions import StorePartition
from backend.ingest.stream_time import TOLERANCE, stream_time_rebuild_reason
from model.machine.clock import boot_time
from model.progress import Progress
from model.records import LastRecord, StoreMetadata
from model.views import View

# Minimum lag (records) for a bulk load. A bulk load reopens the store twice: about 10 ms of CPU.
_BULK_LOAD_LAG = 15_000
# An older version moves the position, but does not store the last record. If the stored one is
# farther behind than this, it is not read again.
_MAX_VERIFY_DISTANCE = 10_000  # offsets


@dataclass(frozen=True)
class RecoveryPolicy:
    """When an existing store is used, and when it is deleted."""

    acceptable_recovery_lag: int  # records: maximum lag of a store that may answer immediately
    cleanup_delay: float = 600.0  # s that a store stays on disk after its partition moved away
    clock_tolerance: float = TOLERANCE  # s by which stream time may be ahead of the clock


class StoreDeleted(Exception):
    """The store could not be used, and was deleted. Before the partition is opened, a push or a
    copy of another instance's store must be installed. `metadata`: of the deleted store, if known.
    """

    def __init__(self, reason: str, metadata: StoreMetadata | None) -> None:
        super().__init__(reason)
        self.metadata = metadata


def open_partition(
    directory: StoreDirectory,
    view: View,
    partition: int,
    topic_metadata: TopicMetadata,
    acceptable_recovery_lag: int,
    shared: bool = False,
    clock_tolerance: float = TOLERANCE,
    pushed_partitions: int | None = None,
    partition_counts: Collection[int] = (),
    may_copy: bool = False,
    deleted_before: StoreMetadata | None = None,
    in_several: bool = False,
) -> tuple[StorePartition, str | None]:
    """The open store partition, and the reason why its old store was deleted (None if it was not).

    It answers without catching up if it was answerable before, if its lag is at most
    `acceptable_recovery_lag` records, and if no other instance answers or has answered in the
    meantime (`shared`). An old store answers only after its last record was found in the log.
    `pushed_partitions`: the partitions of the newest push of the view, which may be fewer than the
    topic has now. `partition_counts`: known numbers of partitions of the topic. The numbers that a
    deleted store knew are added. `deleted_before`: the metadata of a store that was deleted by an
    earlier call. `may_copy`: whether another instance can be asked for its store. `in_several`: see
    `rebuild_reason`. Raises StoreDeleted and the errors of `directory.open`.
    """
    store, reason, deleted = _usable_store(
        directory, view, partition, topic_metadata, clock_tolerance, may_copy, in_several
    )
    deleted = deleted or deleted_before
    metadata = store.metadata
    now_ms = time.time_ns() // 1_000_000
    if metadata is None or store.position is None:
        count = topic_metadata.partitions
        known = set(partition_counts)
        if deleted is not None and deleted.topic_id == topic_metadata.topic_id:
            known |= deleted.partition_counts
        metadata = StoreMetadata(
            view_hash=view.hash,
            topic_id=topic_metadata.topic_id,
            partitions=min(pushed_partitions or count, count),
            leader_epoch=-1,
            answerable=False,
            mispartitioned=0,
            dead_letters=0,
            alive_at=now_ms,
            complete_at=0,
            earlier_counts=tuple(sorted(number for number in known if number < count)),
        )
        store.initialise(topic_metadata.starts[partition], metadata)
    elif shared and metadata.answerable:
        # stored, because the process may stop before it reaches the end of the log
        metadata = replace(metadata, answerable=False)
        store.write(store.new_batch(), store.position, metadata)
    indexes = open_indexes(view, store)  # before a bulk load, which a read would end
    position, end = store.position or 0, topic_metadata.ends[partition]
    answers = metadata.answerable and end - position <= acceptable_recovery_lag
    to_verify = record_to_verify(store, topic_metadata.starts[partition])
    progress = Progress(position, end, answers, verified=to_verify is None)
    progress.end_fetched(
        end, topic_metadata.fetched_boot_time, topic_metadata.high_watermarks.get(partition)
    )
    # with a retention, expiry would read the store during the bulk load
    if not answers and view.retention is None and end - position >= _BULK_LOAD_LAG:
        store.begin_bulk_load(until=end)
    completeness = Completeness.stored(metadata.last_complete, now_ms)
    completeness.end_fetched(end, position, topic_metadata.fetched_boot_time)
    opened = StorePartition(
        view,
        partition,
        store,
        progress,
        metadata,
        boot_time(),
        to_verify=to_verify,
        completeness=completeness,
        indexes=indexes,
    )
    return opened, reason


def verify(store_partition: StorePartition, topic_metadata: TopicMetadata | None) -> None:
    """Note that the log must still have the store's last record; see `record_to_verify`."""
    starts = {} if topic_metadata is None else topic_metadata.starts
    to_verify = record_to_verify(store_partition.store, starts.get(store_partition.partition, 0))
    store_partition.to_verify = to_verify or store_partition.to_verify


def record_to_verify(store: Store, log_start: int) -> LastRecord | None:
    """The last record of the store, if the log should still have it at a small distance before the
    position."""
    last = store.last_record
    if last is None or last.offset < log_start:
        return None
    return last if (store.position or 0) - last.offset <= _MAX_VERIFY_DISTANCE else None


def _usable_store(
    directory: StoreDirectory,
    view: View,
    partition: int,
    topic_metadata: TopicMetadata,
    clock_tolerance: float,
    may_copy: bool,
    in_several: bool,
) -> tuple[Store, str | None, StoreMetadata | None]:
    """A store from whose position ingest can continue, or an empty one; the reason why the old
    store was replaced; and the metadata of the deleted store. Raises StoreDeleted."""
    # the topic does not have pushed entries, so it must not be read into an empty store
    is_needed = view.push is not None or may_copy
    existed = directory.exists(view.name, partition)
    store, reason = directory.open(view.name, partition, view.persistence == "memory")
    if store.metadata is None and store.position is None:
        if existed and is_needed:
            store.close()
            directory.delete(view.name, partition)
            # after a crash or a full disk, there may be a store that was created and never used
            raise StoreDeleted(reason or "its creation was interrupted", None)
        return store, reason, None
    now_ms = time.time_ns() // 1_000_000
    reason = rebuild_reason(
        view, partition, store.position, store.metadata, topic_metadata, now_ms, in_several
    )
    reason = reason or stream_time_rebuild_reason(
        view, store.stream_time, store.metadata, clock_tolerance
    )
    if reason is None:
        return store, None, None
    deleted = store.metadata
    store.close()
    directory.delete(view.name, partition)
    if is_needed:
        raise StoreDeleted(reason, deleted)
    store, _ = directory.open(view.name, partition, view.persistence == "memory")
    return store, reason, deleted
