"""Stream time of a store partition; it never exceeds the wall clock.

Stream time is the greatest time of an entry so far that is not later than this machine's clock plus
a tolerance. So a record from the far future does not expire other entries: it is stored and
answered, and stream time reaches it when the clock does. A replay gives the same result, at any
time.
"""

from __future__ import annotations

import time

from backend.ingest.store_partitions import StorePartition
from model.kinds.expiry import FOREVER, noted, notes_from, notes_until
from model.records import StoreMetadata
from model.views import View

TOLERANCE = 60.0  # s, for clock skew
# the maximum age of the stored `alive_at` when a store is closed or crashes
_NOTED_EVERY = 60_000  # ms


def reached(tolerance: float) -> int:
    """The latest time (ms) that stream time may have now; `tolerance` in s."""
    return time.time_ns() // 1_000_000 + round(tolerance * 1000)


def advance(store_partition: StorePartition, until: int) -> None:
    """Advance the stream time to stored entries whose time has been reached since. StoreError."""
    if store_partition.view.retention is None or until < store_partition.ahead:
        return
    store = store_partition.store
    latest = next(iter(store.scan(*notes_until(until), backwards=True)), None)
    ahead = next(iter(store.scan(*notes_from(until + 1))), None)
    if latest is not None:
        moment, _ = noted(latest[0])
        if store.stream_time is None or moment > store.stream_time:
            store.write(store.new_batch(), store_partition.progress.position, None, moment)
    store_partition.ahead = FOREVER if ahead is None else noted(ahead[0])[0]


def why_too_far(
    view: View, stream_time: int | None, metadata: StoreMetadata | None, tolerance: float
) -> str | None:
    """Why a store partition must be rebuilt because its stream time is ahead of the clock; or None.

    Older versions advanced it without this limit, so entries may have expired too early. The clock
    is compared as of `alive_at`.
    """
    if view.retention is None or stream_time is None or metadata is None:
        return None
    ahead = stream_time - metadata.alive_at - round(tolerance * 1000)
    if ahead <= _NOTED_EVERY:
        return None
    return (
        f"a record from the future had moved its stream time {ahead // 1000} s ahead of the clock"
    )
