"""How far a store partition's stream time moves: never beyond what the clock has reached.

Stream time is the greatest time of an entry that has come so far and that this machine's clock,
plus a tolerance, has reached. So a record of the far future expires nobody else's entries: it is
kept and answered, and stream time gets to it when the clock does. A replay comes to the same,
whenever it is made.
"""

from __future__ import annotations

import time

from backend.ingest.store_partitions import StorePartition
from model.kinds.expiry import FOREVER, noted, notes_from, notes_until
from model.records import StoreMetadata
from model.views import View

TOLERANCE = 60.0  # s, for clocks that differ
# how old the note of the clock may be that was made when the store was last open
_NOTED_EVERY = 60_000  # ms


def reached(tolerance: float) -> int:
    """The latest time (ms) to which stream time may move now; `tolerance` in s."""
    return time.time_ns() // 1_000_000 + round(tolerance * 1000)


def advance(held: StorePartition, until: int) -> None:
    """Move the stream time to entries whose time has been reached since they came. StoreError."""
    if held.view.retention is None or until < held.ahead:
        return
    store = held.store
    latest = next(iter(store.scan(*notes_until(until), backwards=True)), None)
    ahead = next(iter(store.scan(*notes_from(until + 1))), None)
    if latest is not None:
        moment, _ = noted(latest[0])
        if store.stream_time is None or moment > store.stream_time:
            store.write(store.new_batch(), held.progress.position, None, moment)
    held.ahead = FOREVER if ahead is None else noted(ahead[0])[0]


def why_too_far(
    view: View, stream_time: int | None, identity: StoreMetadata | None, tolerance: float
) -> str | None:
    """Why a store partition has to be rebuilt whose stream time a version from before has moved
    beyond the clock (as noted when it was last open): entries may have expired too early."""
    if view.retention is None or stream_time is None or identity is None:
        return None
    ahead = stream_time - identity.alive_at - round(tolerance * 1000)
    if ahead <= _NOTED_EVERY:
        return None
    return f"a record of the future had moved its stream time {ahead // 1000} s beyond the clock"
