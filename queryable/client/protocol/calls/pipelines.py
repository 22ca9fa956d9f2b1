"""The pipeline that derives a view. Commands need the scope `admin`."""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import quote

from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.requests import json_post
from queryable.client.protocol.responses import json_of
from queryable.client.protocol.transport import Call

Action = Literal["pause", "resume", "restart", "rebuild"]


def pipeline(
    context: ClientContext, view: str, *, timeout: float | None = None
) -> Call[dict[str, Any] | None]:
    """The state of a view's pipeline now: `pipeline` of `GET /views/{view}`. None if the view names
    no pipeline. Raises NotFound."""
    document = yield from context.get_json(_path(view), context.deadline(timeout))
    found: dict[str, Any] | None = document.get("pipeline")
    return found


def pipeline_command(
    context: ClientContext, view: str, action: Action, *, timeout: float | None = None
) -> Call[dict[str, Any]]:
    """Sends a command to the pipeline of a view, and returns `{"view", "group", "id", "action"}`.

    The pipeline has carried it out when `pipeline["command"]` of the view is the id. Raises
    BadRequest with the code `pipeline-stopped` or `pipeline-without-commands` if nobody would.
    """
    body = json.dumps({"action": action}).encode()
    # a rebuild that is sent twice would begin twice
    request = json_post(f"{_path(view)}/pipeline", body, is_idempotent=False)
    response = yield from context.send(request, context.deadline(timeout))
    document: dict[str, Any] = json_of(response)
    return document


def _path(view: str) -> str:
    return f"/views/{quote(view, safe='@')}"
