"""Opening a store partition: go on with what is stored, or start anew and say why."""

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

# records from which it pays to open a store partition twice more: some 10 ms of CPU
_WORTH_LOADING = 15_000


def open_partition(
    folder: Folder,
    view: View,
    partition: int,
    facts: TopicMetadata,
    acceptable_recovery_lag: int,
    shared: bool = False,
    clock_tolerance: float = TOLERANCE,
) -> tuple[StorePartition, str | None]:
    """The open store partition, and why what was stored of it had to go, if it had to.

    It may answer at once if it was answerable before, is no more than `acceptable_recovery_lag`
    records behind, and nobody else answers or has answered meanwhile (`shared`). Raises what the
    folder raises.
    """
    store, reason = _usable_store(folder, view, partition, facts, clock_tolerance)
    identity = store.identity
    if identity is None or store.position is None:
        identity = StoreMetadata(
            view_hash=view.hash,
            topic_id=facts.topic_id,
            partitions=facts.partitions,
            leader_epoch=-1,
            answerable=False,
            mis_partitioned=0,
            dead_letters=0,
            alive_at=time.time_ns() // 1_000_000,
        )
        store.initialise(facts.starts[partition], identity)
    elif shared and identity.answerable:
        # noted, for it may end again before it has reached the end
        identity = replace(identity, answerable=False)
        store.write(store.new_batch(), store.position, identity)
    position, end = store.position or 0, facts.ends[partition]
    near = end - position <= acceptable_recovery_lag
    progress = Progress(position, goal=end, answerable=identity.answerable and near)
    progress.end_fetched(end, facts.fetched_at)
    # with a retention, ingest itself reads
    if not progress.answerable and view.retention is None and end - position >= _WORTH_LOADING:
        store.load(until=end)
    return StorePartition(view, partition, store, progress, identity, time.monotonic()), reason


def _usable_store(
    folder: Folder, view: View, partition: int, facts: TopicMetadata, clock_tolerance: float
) -> tuple[Store, str | None]:
    """A store that can be continued, or an empty one."""
    store, reason = folder.open(view.name, partition, view.persistence == "memory")
    if store.identity is None and store.position is None:
        return store, reason
    now_ms = time.time_ns() // 1_000_000
    reason = why_rebuild(view, partition, store.position, store.identity, facts, now_ms)
    reason = reason or why_too_far(view, store.stream_time, store.identity, clock_tolerance)
    if reason is None:
        return store, None
    store.close()
    folder.delete(view.name, partition)
    store, _ = folder.open(view.name, partition, view.persistence == "memory")
    return store, reason
