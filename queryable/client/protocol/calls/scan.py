"""The entries of a view, in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

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

_Row = TypeVar("_Row", Entry, DatedEntry)


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
    timeout: float | None = None,
) -> Call[Pager[Entry]]:
    """The entries from one key to another, both included, in the order of the keys.

    `limit`: the total number of entries. `page`: entries per request. `stream` uses one stream
    instead of pages, which costs the instances less; it has no effect unless keys are strings,
    bytes or integers. `partition`: the only one to read. `timeout` is for each page, or for each
    read of a stream.
    """
    asked = _Asked(from_, to, prefix, order, limit, page, stream, partition, stale, timeout)
    return (yield from _pager(context, view, asked, entry_from_json, timestamps=False))


def scan_dated(
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
    timeout: float | None = None,
) -> Call[Pager[DatedEntry]]:
    """As `scan`, with the timestamps of the records."""
    asked = _Asked(from_, to, prefix, order, limit, page, stream, partition, stale, timeout)
    return (yield from _pager(context, view, asked, dated_entry_from_json, timestamps=True))


class _Asked(NamedTuple):
    """The parameters of `scan`."""

    from_: Any
    to: Any
    prefix: str | bytes | None
    order: Order
    limit: int | None
    page: int
    stream: bool
    partition: int | None
    stale: Stale | None
    timeout: float | None


def _pager(
    context: ClientContext,
    view: str,
    asked: _Asked,
    of_json: Callable[[View, Any], _Row],
    *,
    timestamps: bool,
) -> Call[Pager[_Row]]:
    view_info = yield from context.view_to_read(view, context.deadline(asked.timeout))
    check_page_size(asked.page, asked.limit)

    def query(view_info: View, received: _Row | None = None) -> Parameters:
        first, last = remaining_range(asked.order, asked.from_, asked.to, received)
        return (
            Parameters()
            .add_key("from", view_info, first)
            .add_key("to", view_info, last)
            .add_prefix(view_info, asked.prefix)
            .add("order", asked.order)
            .add("partition", asked.partition)
            .add("stale", asked.stale)
            .add("timestamps", "true" if timestamps else None)
        )

    if asked.stream and can_resume(view_info):
        path = f"/views/{view_info.name}/keys"
        return StreamPager(
            context, path, view_info, query, of_json, _has_same_key,
            limit=asked.limit, timeout=asked.timeout,
        )  # fmt: skip
    return CursorPager(
        context, lambda of: f"/views/{of.name}/keys", query, view_info, of_json,
        limit=asked.limit, page=asked.page, timeout=asked.timeout,
    )  # fmt: skip


def _has_same_key(entry: _Row, last: _Row) -> bool:
    return bool(entry.key == last.key)
