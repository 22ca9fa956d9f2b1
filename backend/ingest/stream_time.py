"""Stream time of a store partition; it never exceeds the wall clock.

Stream time is the greatest time of an entry so far that is not later than this machine's clock plus
a tolerance. So a record from the far future does not expire other entries. It is stored and served,
and stream time advances to its time when the clock does. A replay at any time gives the same
result.
"""

from __future__ import annotations

import time

from backend.ingest.store_partitions import StorePartition
from model.kinds.expiry import MAX_TIME, decode_index_key, index_range_from, index_range_to
from model.records import StoreMetadata
from model.views import View

TOLERANCE = 60.0  # s, for clock skew
_MAX_ALIVE_AT_AGE = 60_000  # ms: how old `alive_at` may be when a store is closed or crashes


def max_stream_time(tolerance: float) -> int:
    """The latest stream time (ms) that the clock allows now; `tolerance` in s."""
    return time.time_ns() // 1_000_000 + round(tolerance * 1000)


def advance(store_partition: StorePartition, until: int) -> None:
    """Advance the stream time to the latest time of an entry that is not after `until` (ms).
    Raises StoreError."""
    if store_partition.view.retention is None or until < store_partition.earliest_future_time:
        return
    store = store_partition.store
    latest = next(iter(store.scan(*index_range_to(until), backwards=True)), None)
    following = next(iter(store.scan(*index_range_from(until + 1))), None)
    if latest is not None:
        latest_time, _ = decode_index_key(latest[0])
        if store.stream_time is None or latest_time > store.stream_time:
            store.write(store.new_batch(), store_partition.progress.position, None, latest_time)
    store_partition.earliest_future_time = (
        MAX_TIME if following is None else decode_index_key(following[0])[0]
    )


def stream_time_rebuild_reason(
    view: View, stream_time: int | None, metadata: StoreMetadata | None, tolerance: float
) -> str | None:
    """The reason to rebuild a store partition whose stream time is ahead of the clock; else None.

    Older versions advanced it without this limit, so entries may have expired too early. The stream
    time is compared with `alive_at`, because the clock may have been set back since.
    """
    if view.retention is None or stream_time is None or metadata is None:
        return None
    ahead = stream_time - metadata.alive_at - round(tolerance * 1000)
    if ahead <= _MAX_ALIVE_AT_AGE:
        return None
    return (
        f"a record from the future had moved its stream time {ahead // 1000} s ahead of the clock"
    )
