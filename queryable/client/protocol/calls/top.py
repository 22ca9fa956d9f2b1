"""The entries with the greatest or smallest numbers."""

from __future__ import annotations

from typing import Any

from model.kinds.registry import kind_of
from queryable.client.protocol.answers import Entry, Ranking, Source
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.parameters import Order, OrderBy, Parameters, Stale, Time
from queryable.client.protocol.requests import ApiRequest
from queryable.client.protocol.responses import decoding, json_of, number_from_json
from queryable.client.protocol.rows import entry_from_json
from queryable.client.protocol.transport import Call
from queryable.client.protocol.views import View

KEYS = "keys"


def top(
    context: ClientContext,
    view: str,
    by: str | None = None,
    *,
    order_by: OrderBy | None = None,
    order: Order = "desc",
    limit: int = 100,
    from_: Time | None = None,
    to: Time | None = None,
    where: str | None = None,
    max_examined: int | None = None,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Ranking]:
    """The entries with the greatest (`desc`) or smallest (`asc`) numbers in the field `by` of their
    values; without `by`, the values themselves are the numbers. `where`: a condition, such as
    "dest = 'ATL'". `max_examined` bounds how many entries are read.

    In a view of windows or sessions: the keys with the greatest or smallest `order_by` (by default
    the sum) of their entries from `from_` to `to`. The value of an item is this number."""
    deadline = context.deadline(timeout)
    view_info = yield from context.view_to_read(view, deadline)
    query = (
        Parameters()
        .add("by", by)
        .add("order_by", order_by)
        .add("order", order)
        .add("limit", limit)
        .add_time("from", from_)
        .add_time("to", to)
        .add_filter(where, max_examined=max_examined)
        .add("stale", stale)
    )
    request = ApiRequest(query.append_to(f"/views/{view_info.name}/top"))
    response = yield from context.send(request, deadline)
    document = json_of(response)
    answering = yield from context.answering(view_info, response.headers, deadline)
    with decoding():
        entry = entry_from_json if kind_of(answering.store).resource == KEYS else _key_with_number
        entries = [entry(answering, item) for item in document["items"]]
        unreadable = int(document.get("unreadable", 0))
    return Ranking(entries, Source(response.headers), unreadable)


def _key_with_number(view: View, item: dict[str, Any]) -> Entry:
    return Entry(view.key.key_from_json(item["key"]), number_from_json(item["value"]))
