"""Deleting what has expired, a few entries at a time."""

from __future__ import annotations

from itertools import islice

from backend.ingest.protocols import Batch
from backend.ingest.store_partitions import StorePartition
from model.kinds.expiry import expired_notes, noted

_AT_ONCE = 500


def expired(held: StorePartition, scattered: bool = False) -> Batch | None:
    """A batch that deletes some of the entries that have expired; None if there are none.

    `scattered`: a key may have versions in other partitions, which a delete here may end.
    """
    store, view = held.store, held.view
    until = view.kind.horizon(view, store.stream_time)
    if until <= held.expired_until:
        return None
    notes = [key for key, _ in islice(store.scan(*expired_notes(until)), _AT_ONCE)]
    if len(notes) < _AT_ONCE:
        held.expired_until = until
    if not notes:
        return None
    batch = store.new_batch()
    for key in notes:
        batch.delete(key)
        _, stored_key = noted(key)
        view.kind.delete_expired(view, store, batch, stored_key, until, scattered)
    return batch
