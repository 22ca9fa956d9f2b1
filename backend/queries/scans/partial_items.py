"""The JSON items of `partials=all`: the entries of a key, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from backend.ingest.protocols import Store
from backend.queries.scans.merged_entries import MergedEntries
from backend.queries.scans.partials import Partial
from model.records import decode_entry, is_tombstone
from model.rows.unreadable import value_member
from model.views import View


def partial_values(view: View, partials: Iterable[Partial]) -> list[bytes]:
    """The value in each partition that has one, with the offset and the time (ms) of its record."""
    items = []
    for partial in partials:
        for _, head, value in partial.rows:
            if is_tombstone(head):
                continue
            timestamp, offset, _ = decode_entry(head)
            items.append(
                b'{"partition":%d,"offset":%d,"timestamp":%d,%b}'
                % (partial.partition, offset, timestamp, value_member(view, head + value))
            )
    return items


def partial_items(
    view: View, partials: Iterable[Partial], items_of: Callable[[Store], list[bytes]]
) -> list[bytes]:
    """The windows, sessions or versions of each partition that has some. `items_of` finds them in
    the partition's entries."""
    documents = []
    for partial in partials:
        entries = [(stored_key, head + value) for stored_key, head, value in partial.rows]
        clock = partial.stream_time if view.kind.has_versions else None
        items = items_of(cast(Store, MergedEntries(entries, clock)))
        if items:
            documents.append(
                b'{"partition":%d,"items":[%b]}' % (partial.partition, b",".join(items))
            )
    return documents
