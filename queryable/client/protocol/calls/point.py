"""The value of one key."""

from __future__ import annotations

from typing import Any

from queryable.client.protocol.answers import Answer
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.errors import error_from_response
from queryable.client.protocol.parameters import Route, Span, Stale, Time, freshness, key_target
from queryable.client.protocol.requests import ApiRequest
from queryable.client.protocol.responses import decoding, json_of
from queryable.client.protocol.rows import headers_from_json
from queryable.client.protocol.transport import Call
from queryable.client.protocol.views import View


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
    headers: bool = False,
    timeout: float | None = None,
) -> Call[Answer]:
    """The value of a key; `answer.found` is False if the key has none.

    `as_of`: the value that was valid at that time, of a versioned view. `max_lag` (records) and
    `max_staleness`: how far behind the answer may be. `stale="allow"` also accepts an answer from
    a partition that is still being restored; `"never"` accepts only one from the active.
    `route="local"`, for debugging: the instance at the client's first URL answers from its own
    stores or not at all. That instance is not asked again, and no other one is asked. `headers`:
    the answer has the headers of the record, which the instance reads from the topic.
    """
    deadline = context.deadline(timeout)
    view_info = yield from context.view_to_read(view, deadline)
    view_info.key.path_segment(key)  # raises an error for an invalid key, before other requests
    replicas: tuple[str, ...] = ()
    if route is None:
        replicas = yield from context.replicas(view_info, key, deadline)

    def request_of(view_info: View) -> ApiRequest:
        query = freshness(context.min_offset(view_info), stale, max_lag, max_staleness)
        query = query.add_time("as_of", as_of).add("route", route)
        target = key_target(view_info, key, "", query.add("headers", "true" if headers else None))
        if route is not None:
            return ApiRequest(target, max_attempts=1)
        return ApiRequest(target, instances=replicas)

    response, answering = yield from context.read(view_info, request_of, deadline)
    if response.status == 404:
        error = error_from_response(404, response.headers, response.body)
        if error.code != "key-not-found":
            raise error
        answer = Answer(response.headers, key, False)
    else:
        document = json_of(response)
        with decoding():
            answer = Answer(
                response.headers,
                key,
                True,
                answering.value.from_json(document["value"]),
                document.get("valid_from"),
                document.get("valid_to"),
                record_headers=headers_from_json(document.get("headers")),
            )
    context.note_read(answering, answer)
    return answer
