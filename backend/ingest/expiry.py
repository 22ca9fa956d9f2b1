"""Deletes expired entries, a few at a time."""

from __future__ import annotations

from itertools import islice

from backend.ingest.protocols import Batch
from backend.ingest.store_partitions import StorePartition
from model.kinds.expiry import decode_index_key, expired_range

_BATCH_SIZE = 500  # entries


def expiry_batch(store_partition: StorePartition, in_several: bool = False) -> Batch | None:
    """A batch that deletes some of the expired entries; None if there are none.

    `in_several`: whether a key may also have entries in other partitions.
    """
    store, view = store_partition.store, store_partition.view
    until = view.kind.horizon(view, store.stream_time)
    if until <= store_partition.expired_until:
        return None
    index_keys = [key for key, _ in islice(store.scan(*expired_range(until)), _BATCH_SIZE)]
    if len(index_keys) < _BATCH_SIZE:
        store_partition.expired_until = until
    if not index_keys:
        return None
    batch = store.new_batch()
    for index_key in index_keys:
        batch.delete(index_key)
        _, stored_key = decode_index_key(index_key)
        view.kind.delete_expired(view, store, batch, stored_key, until, in_several)
    return batch
