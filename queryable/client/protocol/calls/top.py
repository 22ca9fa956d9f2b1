"""The entries with the greatest or smallest numbers."""

from __future__ import annotations

from queryable.client.protocol.answers import Ranking, Source
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.parameters import Order, Parameters, Stale
from queryable.client.protocol.requests import ApiRequest
from queryable.client.protocol.responses import decoding, json_of
from queryable.client.protocol.rows import entry_from_json
from queryable.client.protocol.transport import Call


def top(
    context: ClientContext,
    view: str,
    by: str | None = None,
    *,
    order: Order = "desc",
    limit: int = 100,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Ranking]:
    """The entries with the greatest (`desc`) or smallest (`asc`) numbers in the field `by` of their
    values; without `by`, the values themselves are the numbers."""
    deadline = context.deadline(timeout)
    view_info = yield from context.view_to_read(view, deadline)
    query = Parameters().add("by", by).add("order", order).add("limit", limit).add("stale", stale)
    request = ApiRequest(query.append_to(f"/views/{view_info.name}/top"))
    response = yield from context.send(request, deadline)
    document = json_of(response)
    answering = yield from context.answering(view_info, response.headers, deadline)
    with decoding():
        entries = [entry_from_json(answering, item) for item in document["items"]]
        unreadable = int(document.get("unreadable", 0))
    return Ranking(entries, Source(response.headers), unreadable)
