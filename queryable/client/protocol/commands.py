"""Commands of operators. They need the scope `admin`, and are sent once."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.requests import json_post
from queryable.client.protocol.responses import json_of
from queryable.client.protocol.transport import Call


def path_of(view: str) -> str:
    """`view` may name a version: orders@2."""
    return f"/views/{quote(view, safe='@')}"


_MARGIN_S = 10.0  # for an answer after the instance has waited


def send_command(
    context: ClientContext, path: str, body: dict[str, Any], timeout: float | None
) -> Call[dict[str, Any]]:
    """Posts a command, and returns the answer's document. If the instance waits before it answers
    (`wait` in the body, s), so does the client."""
    # a command that was sent twice would be refused, or carried out twice
    request = json_post(path, json.dumps(body).encode(), is_idempotent=False)
    if timeout is None and "wait" in body:
        timeout = max(context.settings.timeout, body["wait"] + _MARGIN_S)
    response = yield from context.send(request, context.deadline(timeout))
    document: dict[str, Any] = json_of(response)
    return document
