"""Opens a store partition: continues with the stored data, or starts from an empty store."""

from __future__ import annotations

import time
from dataclasses import replace

from backend.ingest.protocols import Folder, Store
from backend.ingest.store_partitions import StorePartition
from backend.ingest.stream_time import TOLERANCE, why_too_far
from backend.ingest.topic_metadata import TopicMetadata, why_rebuild
from model.progress import Progress
from model.records import StoreMetadata
from model.views import View

# lag (records) from which a bulk load is worth reopening the store twice: about 10 ms of CPU
_WORTH_LOADING = 15_000


def open_partition(
    folder: Folder,
    view: View,
    partition: int,
    topic_metadata: TopicMetadata,
    acceptable_recovery_lag: int,
    shared: bool = False,
    clock_tolerance: float = TOLERANCE,
) -> tuple[StorePartition, str | None]:
    """The open store partition, and why its old store was discarded (None if it was not).

    It answers at once if it was answerable before, its lag is at most `acceptable_recovery_lag`
    records, and no other instance answers or has answered meanwhile (`shared`). Raises what the
    folder raises.
    """
    store, reason = _usable_store(folder, view, partition, topic_metadata, clock_tolerance)
    metadata = store.metadata
    if metadata is None or store.position is None:
        metadata = StoreMetadata(
            view_hash=view.hash,
            topic_id=topic_metadata.topic_id,
            partitions=topic_metadata.partitions,
            leader_epoch=-1,
            answerable=False,
            mispartitioned=0,
            dead_letters=0,
            alive_at=time.time_ns() // 1_000_000,
        )
        store.initialise(topic_metadata.starts[partition], metadata)
    elif shared and metadata.answerable:
        # stored, because the process may stop before the end is reached
        metadata = replace(metadata, answerable=False)
        store.write(store.new_batch(), store.position, metadata)
    position, end = store.position or 0, topic_metadata.ends[partition]
    near = end - position <= acceptable_recovery_lag
    progress = Progress(position, target_offset=end, answerable=metadata.answerable and near)
    progress.end_fetched(end, topic_metadata.fetched_at)
    # not with a retention, because expiry reads the store
    if not progress.answerable and view.retention is None and end - position >= _WORTH_LOADING:
        store.begin_bulk_load(until=end)
    return StorePartition(view, partition, store, progress, metadata, time.monotonic()), reason


def _usable_store(
    folder: Folder,
    view: View,
    partition: int,
    topic_metadata: TopicMetadata,
    clock_tolerance: float,
) -> tuple[Store, str | None]:
    """A store that can be continued, or an empty one."""
    store, reason = folder.open(view.name, partition, view.persistence == "memory")
    if store.metadata is None and store.position is None:
        return store, reason
    now_ms = time.time_ns() // 1_000_000
    reason = why_rebuild(view, partition, store.position, store.metadata, topic_metadata, now_ms)
    reason = reason or why_too_far(view, store.stream_time, store.metadata, clock_tolerance)
    if reason is None:
        return store, None
    store.close()
    folder.delete(view.name, partition)
    store, _ = folder.open(view.name, partition, view.persistence == "memory")
    return store, reason
