"""The number of entries of a view."""

from __future__ import annotations

from urllib.parse import quote

from queryable.client.protocol.answers import Count, Source
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.parameters import Parameters, Stale
from queryable.client.protocol.requests import ApiRequest
from queryable.client.protocol.responses import decoding, json_of
from queryable.client.protocol.transport import Call


def count(
    context: ClientContext,
    view: str,
    *,
    exact: bool = False,
    where: str | None = None,
    max_examined: int | None = None,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Count]:
    """The number of entries; above some 100,000 a fast estimate, unless `exact` is True. With
    `where`, those that meet the condition are counted; `max_examined` bounds how many are read."""
    query = Parameters().add("exact", "true" if exact else None).add("stale", stale)
    query.add_filter(where, max_examined=max_examined)
    request = ApiRequest(query.append_to(f"/views/{quote(view, safe='')}/count"))
    response = yield from context.send(request, context.deadline(timeout))
    document = json_of(response)
    with decoding():
        unreadable = int(document.get("unreadable", 0))
        return Count(document["count"], document["exact"], Source(response.headers), unreadable)
