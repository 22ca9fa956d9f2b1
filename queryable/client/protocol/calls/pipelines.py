"""The pipeline that derives a view. Commands need the scope `admin`."""

from __future__ import annotations

from typing import Any, Literal

from queryable.client.protocol.commands import path_of, send_command
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.transport import Call

Action = Literal["pause", "resume", "restart", "rebuild"]


def pipeline(
    context: ClientContext, view: str, *, timeout: float | None = None
) -> Call[dict[str, Any] | None]:
    """The state of a view's pipeline now: `pipeline` of `GET /views/{view}`. None if the view names
    no pipeline. Raises NotFound."""
    document = yield from context.get_json(path_of(view), context.deadline(timeout))
    status: dict[str, Any] | None = document.get("pipeline")
    return status


def pipeline_command(
    context: ClientContext, view: str, action: Action, *, timeout: float | None = None
) -> Call[dict[str, Any]]:
    """Sends a command to the pipeline of a view, and returns `{"view", "group", "id", "action"}`.

    The pipeline has carried it out when `pipeline["command"]` of the view is the id. Raises
    BadRequest with the code `pipeline-stopped` or `pipeline-without-commands` if no job would carry
    it out.
    """
    path = f"{path_of(view)}/pipeline"
    return (yield from send_command(context, path, {"action": action}, timeout))
