"""`queryable pipeline`: the pipeline that derives a view."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from queryable import Client
from queryable.cli.declaration.checks import one_of
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import UNAVAILABLE, print_stderr
from queryable.cli.options import Confirmation, ViewName
from queryable.cli.output import DocumentOutput, print_table, write_line
from queryable.cli.progress import poll
from queryable.client.protocol.errors import BadUse

_CARRIED_OUT_WITHIN_S = 60.0
_STEP_S = 0.25


class Action(StrEnum):
    """A command for the pipeline."""

    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    REBUILD = "rebuild"


_DONE = {
    Action.PAUSE: "is paused",
    Action.RESUME: "runs",
    Action.RESTART: "was started again",
    Action.REBUILD: "reads its sources from the start",
}


@command
def pipeline(
    *,
    view: ViewName,
    action: Annotated[
        str | None,
        typer.Argument(
            metavar="ACTION",
            help="pause, resume, restart or rebuild. [default: show the state]",
            show_default=False,
            **one_of(*Action),
        ),
    ] = None,
    confirmation: Confirmation,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Show or control the job that derives a view.

    A pause lasts until resume, restart or rebuild, also if the job is started again meanwhile.
    rebuild begins a new checkpoint, reads the sources from the start, and deletes keys that have no
    value any more. Results of records that the sources no longer have are lost. Meanwhile, counts
    and sums begin again: use a new version of the view if readers must not see that. rebuild asks
    first, unless --yes is given.

    Waits until the job has carried out the action. Exits with 2 if the job does not run, 3 if it
    has not carried out the action within a minute. An action needs the scope admin.

    \b
    Examples:
      queryable pipeline word-count
      queryable pipeline word-count pause
      queryable pipeline orders@2 rebuild --yes
    """
    chosen = Action(action) if action else None
    if chosen is Action.REBUILD:
        confirmation.require(
            f"Delete the checkpoint of {view} and read its sources from the start? Results of "
            "records that they no longer have are lost, and counts and sums begin again meanwhile"
        )
    if chosen is None:
        _show(_state(client, view), output)
        return
    id_ = client.pipeline_command(view, chosen.value)["id"]
    state = _wait(client, view, id_)
    is_done = state["command"] == id_
    if not output.is_for_people:
        write_line({"view": view, "action": chosen.value, "done": is_done, "pipeline": state})
    elif is_done:
        print(f"The pipeline of {view} {_DONE[chosen]}.")
    if not is_done:
        print_stderr(f"The job of {view} has not carried out the command yet: look at its log.")
        raise SystemExit(UNAVAILABLE)


def _state(client: Client, view: str) -> dict[str, Any]:
    state = client.pipeline(view)
    if state is None:
        raise BadUse(f"View {view} names no pipeline in views.toml: none derives it.")
    return state


def _wait(client: Client, view: str, id_: str) -> dict[str, Any]:
    """The state when the command is carried out, or after `_CARRIED_OUT_WITHIN_S`."""

    def ask(_: bool) -> tuple[bool, dict[str, Any]]:
        state = _state(client, view)
        return state["command"] == id_, state

    return poll(ask, _CARRIED_OUT_WITHIN_S, _STEP_S)


def _show(state: dict[str, Any], output: DocumentOutput) -> None:
    if not output.is_for_people:
        write_line(state)
        return
    stats = {name.replace("_", " "): number for name, number in state["stats"].items()}
    if "watermark" in stats:
        seconds = stats["watermark"] / 1000
        stats["watermark"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    shown: dict[str, Any] = {
        "state": state["state"],
        "error": state["error"],
        "group": state["group"],
        "lag": state["lag"],
        **{f"lag in {source['topic']}": source["lag"] for source in state["sources"][1:]},
        "staleness ms": state["staleness"],
        "open transaction ms": state.get("open_transaction"),
        "seconds left": state.get("seconds_left"),
        "seconds of a rebuild": state.get("rebuild_seconds"),
        **stats,
    }
    print_table(
        [{"": name, " ": _text(value)} for name, value in shown.items() if value is not None]
    )


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
