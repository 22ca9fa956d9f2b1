"""The entries of a view, in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

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
from queryable.client.protocol.parameters import Fields, Order, Parameters, Stale
from queryable.client.protocol.rows import dated_entry_from_json, entry_from_json
from queryable.client.protocol.transport import Call
from queryable.client.protocol.views import View

_Row = TypeVar("_Row", Entry, DatedEntry)


class _Scan(Generic[_Row]):
    """A scan whose rows `decode` makes from JSON."""

    def __init__(self, decode: Callable[[View, Any], _Row], timestamps: str | None) -> None:
        self._decode: Callable[[View, Any], _Row] = decode
        self._timestamps = timestamps

    def scan(
        self,
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
        where: str | None = None,
        select: Fields = (),
        order_by: str | None = None,
        stale: Stale | None = None,
        timeout: float | None = None,
    ) -> Call[Pager[_Row]]:
        """The entries from one key to another, both included, in the order of the keys, or of the
        field `order_by`, if an index has this order.

        `limit`: the total number of entries. `page`: entries per request. `stream` uses one stream
        instead of pages, which costs the instances less; it has no effect unless keys are strings,
        bytes or integers, and the rows are in their order. `partition`: the only partition to read.
        `where`: a condition, such as "dest = 'ATL'". `select`: the fields of the values. `timeout`
        is for each page, or for each read of a stream. `scan_dated` is the same with the timestamps
        of the records.
        """
        view_info = yield from context.view_to_read(view, context.deadline(timeout))
        check_page_size(page, limit)

        def query(view_info: View, received: _Row | None = None) -> Parameters:
            first, last = remaining_range(order, from_, to, received)
            return (
                Parameters()
                .add_key("from", view_info, first)
                .add_key("to", view_info, last)
                .add_prefix(view_info, prefix)
                .add("order", order)
                .add("partition", partition)
                .add_filter(where, select)
                .add("order_by", order_by)
                .add("stale", stale)
                .add("timestamps", self._timestamps)
            )

        def path(view_info: View) -> str:
            return f"/views/{view_info.name}/keys"

        if stream and order_by is None and can_resume(view_info):
            return StreamPager(
                context, path(view_info), view_info, query, self._decode, _has_same_key,
                limit=limit, timeout=timeout,
            )  # fmt: skip
        return CursorPager(
            context, path, query, view_info, self._decode,
            limit=limit, page=page, timeout=timeout,
        )  # fmt: skip


def _has_same_key(entry: _Row, last: _Row) -> bool:
    return bool(entry.key == last.key)


scan = _Scan(entry_from_json, timestamps=None).scan
scan_dated = _Scan(dated_entry_from_json, timestamps="true").scan
