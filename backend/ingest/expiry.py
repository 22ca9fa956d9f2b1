"""Deletes expired entries, a few at a time."""

from __future__ import annotations

from itertools import islice

from backend.ingest.protocols import Batch
from backend.ingest.store_partitions import StorePartition
from model.kinds.expiry import expired_notes, noted

_AT_ONCE = 500


def expired(store_partition: StorePartition, mispartitioned: bool = False) -> Batch | None:
    """A batch that deletes some of the expired entries; None if there are none.

    `mispartitioned`: a key may have entries in other partitions, too.
    """
    store, view = store_partition.store, store_partition.view
    until = view.kind.horizon(view, store.stream_time)
    if until <= store_partition.expired_until:
        return None
    notes = [key for key, _ in islice(store.scan(*expired_notes(until)), _AT_ONCE)]
    if len(notes) < _AT_ONCE:
        store_partition.expired_until = until
    if not notes:
        return None
    batch = store.new_batch()
    for key in notes:
        batch.delete(key)
        _, stored_key = noted(key)
        view.kind.delete_expired(view, store, batch, stored_key, until, mispartitioned)
    return batch
