"""The value of one key."""

from __future__ import annotations

from typing import Any

from queryable.client.protocol.answers import Answer
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.errors import error_from_response
from queryable.client.protocol.parameters import Route, Span, Stale, Time, freshness, key_target
from queryable.client.protocol.requests import ApiRequest
from queryable.client.protocol.responses import decoding, json_of
from queryable.client.protocol.transport import Call


def get(
    context: ClientContext,
    view: str,
    key: Any,
    *,
    as_of: Time | None = None,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    route: Route | None = None,
    timeout: float | None = None,
) -> Call[Answer]:
    """The value of a key; `answer.found` is False if the key has none.

    `as_of`: the value that was valid at that time, of a versioned view. `max_lag` (records) and
    `max_staleness`: how far behind the answer may be. `stale="allow"` also accepts an answer from
    a partition that is still being restored; `"never"` accepts only one from the active.
    `route="local"`, for debugging: the instance at the client's first URL answers from its own
    stores or not at all. It is neither asked again nor is another one asked.
    """
    deadline = context.deadline(timeout)
    view_info = yield from context.view(view, deadline)
    query = freshness(context.min_offset(view_info), stale, max_lag, max_staleness)
    target = key_target(view_info, key, "", query.add_time("as_of", as_of).add("route", route))
    if route is not None:
        request = ApiRequest(target, max_attempts=1)
    else:
        replicas = yield from context.replicas(view_info, key, deadline)
        request = ApiRequest(target, instances=replicas)
    response = yield from context.send(request, deadline)
    if response.status == 404:
        error = error_from_response(404, response.headers, response.body)
        if error.code != "key-not-found":
            raise error
        answer = Answer(response.headers, key, False)
    else:
        document = json_of(response)
        answering = yield from context.answering(view_info, response.headers, deadline)
        with decoding():
            answer = Answer(
                response.headers,
                key,
                True,
                answering.value.from_json(document["value"]),
                document.get("valid_from"),
                document.get("valid_to"),
            )
    context.note_read(view_info, answer)
    return answer
