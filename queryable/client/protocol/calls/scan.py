"""The entries of a view, in the order of their keys."""

from __future__ import annotations

from typing import Any

from queryable.client.protocol.answers import DatedEntry, Entry
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.pagination import (
    PAGE_SIZE,
    CursorPager,
    Pager,
    StreamPager,
    can_resume,
    check_page_size,
    remaining_range,
)
from queryable.client.protocol.parameters import Order, Parameters, Stale
from queryable.client.protocol.rows import dated_entry_from_json, entry_from_json
from queryable.client.protocol.transport import Call
from queryable.client.protocol.views import View


def scan(
    context: ClientContext,
    view: str,
    *,
    from_: Any = None,
    to: Any = None,
    prefix: str | bytes | None = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE_SIZE,
    stream: bool = False,
    partition: int | None = None,
    stale: Stale | None = None,
    timestamps: bool = False,
    timeout: float | None = None,
) -> Call[Pager[Entry | DatedEntry]]:
    """The entries from one key to another, both included, in the order of the keys.

    `limit`: the total number of entries. `page`: entries per request. `stream` uses one stream
    instead of pages, which costs the instances less; it has no effect unless keys are strings,
    bytes or integers. `partition`: the only one to read. `timestamps`: a DatedEntry for each entry.
    `timeout` is for each page, or for each read of a stream.
    """
    view_info = yield from context.view_to_read(view, context.deadline(timeout))
    check_page_size(page, limit)

    of_json: Any = dated_entry_from_json if timestamps else entry_from_json

    def query(view_info: View, received: Entry | DatedEntry | None = None) -> Parameters:
        first, last = remaining_range(order, from_, to, received)
        return (
            Parameters()
            .add_key("from", view_info, first)
            .add_key("to", view_info, last)
            .add_prefix(view_info, prefix)
            .add("order", order)
            .add("partition", partition)
            .add("stale", stale)
            .add("timestamps", "true" if timestamps else None)
        )

    if stream and can_resume(view_info):
        path = f"/views/{view_info.name}/keys"
        return StreamPager(
            context, path, view_info, query, of_json, _has_same_key,
            limit=limit, timeout=timeout,
        )  # fmt: skip
    return CursorPager(
        context, lambda of: f"/views/{of.name}/keys", query, view_info, of_json,
        limit=limit, page=page, timeout=timeout,
    )  # fmt: skip


def _has_same_key(entry: Entry | DatedEntry, last: Entry | DatedEntry) -> bool:
    return bool(entry.key == last.key)
