"""Deleting what has expired, a few entries at a time."""

from __future__ import annotations

from itertools import islice

from backend.ingest.protocols import Batch
from backend.ingest.store_partitions import StorePartition
from backend.kinds.expiry import expired_notes, horizon, noted
from model.layouts import VersionedLayout
from model.records import decode_entry, is_deleted

_AT_ONCE = 500


def expired(held: StorePartition, scattered: bool = False) -> Batch | None:
    """A batch that deletes some of the entries that have expired; None if there are none.

    `scattered`: a key may have versions in other partitions, which a delete here may end.
    """
    store, view = held.store, held.view
    until = horizon(view, store.stream_time)
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
        if view.store == "key-value":
            # the key may have a later record by now
            stored = store.get(stored_key)
            if stored is not None and decode_entry(stored).timestamp < until:
                batch.delete(stored_key)
        elif view.store == "versioned":
            _delete_superseded(held, batch, stored_key, scattered)
        else:
            batch.delete(stored_key)
    return batch


def _delete_superseded(
    held: StorePartition, batch: Batch, stored_key: bytes, scattered: bool
) -> None:
    """A version that began before the horizon is valid there: what was before it is not needed."""
    layout = held.view.layout
    assert isinstance(layout, VersionedLayout)
    first, _ = layout.valid_from_range(layout.entry_key(stored_key).key, None, None)
    for older, _ in held.store.scan(first, stored_key):
        batch.delete(older)
    stored = held.store.get(stored_key)
    if stored is not None and is_deleted(stored) and not scattered:
        batch.delete(stored_key)
