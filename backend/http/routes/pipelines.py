"""Commands for the pipeline of a view."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from backend.http.request import Request
from backend.http.routes.members import members
from backend.pipelines.commands import CommandSender
from backend.wire.answer import Answer, json_answer
from model.machine.clock import boot_time
from model.pipelines.commands import ACTIONS
from model.pipelines.status import STOPPED, UNKNOWN, Pipeline
from model.problems import Conflict, NotFound, Unavailable
from model.views import View

_ALLOWED = {"action": ACTIONS}


class PipelineRoutes:
    """The handler of `POST /views/{view}/pipeline`."""

    def __init__(self, pipelines: Mapping[str, Pipeline], commands: CommandSender) -> None:
        self._pipelines, self._commands = pipelines, commands

    async def command(self, request: Request) -> Answer:
        """Sends a command. Raises Conflict if no job of the view would carry it out."""
        view: View = request.routed_view
        action: str = members(request, _ALLOWED, ("action",))["action"]
        request.details["action"] = action
        pipeline = self._pipelines.get(view.name)
        if pipeline is None:
            raise NotFound(
                "no-pipeline", f"View {view.name} names no pipeline in views.toml: none derives it."
            )
        _check(pipeline)
        send = self._commands.send
        command = await asyncio.to_thread(send, pipeline.group, view.topic, action)
        document = {"view": view.name, "group": pipeline.group, **command._asdict()}
        return json_answer(document)


def _check(pipeline: Pipeline) -> None:
    status = pipeline.status(boot_time())
    if status.state == UNKNOWN:
        raise Unavailable(
            "pipeline-unknown", f"It is not known whether pipeline {pipeline.group} runs."
        )
    if status.state == STOPPED:
        raise Conflict(
            "pipeline-stopped", f"The job of pipeline {pipeline.group} does not run. Start it."
        )
    if not status.follows_commands:
        raise Conflict(
            "pipeline-without-commands",
            f"Pipeline {pipeline.group} follows no commands: its heartbeats have no command.",
        )
