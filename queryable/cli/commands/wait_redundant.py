"""`queryable wait-redundant`: the gate between two steps of a rolling restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from model.topology import below_replicas
from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.description.state import PATH
from queryable.cli.exit_codes import UNAVAILABLE, print_stderr
from queryable.cli.options import complete_instance
from queryable.cli.output import DocumentOutput, write_line
from queryable.cli.progress import poll
from queryable.client.protocol.errors import Unavailable

_STEP_S = 0.5
_MAX_SHOWN = 20
_RUNNING = "running"


@command
def wait_redundant(
    *,
    instances: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INSTANCE]...",
            help="Instances that must run, such as the one that was restarted.",
            autocompletion=complete_instance,
            show_default=False,
        ),
    ] = None,
    wait: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait.")] = 300,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Wait until every partition has all its replicas.

    A replica counts if its instance can answer for the partition now. Use it after each step of a
    rolling restart or an upgrade, with the name of the instance that was restarted: the others may
    have all replicas while it has not joined yet.

    Exits with 3 if something is missing after --wait, and says what. With --wait 0 it only looks.

    \b
    Examples:
      queryable wait-redundant
      queryable wait-redundant b1 --wait 600
      queryable wait-redundant --wait 0
    """
    wanted = instances or []

    def ask(is_last: bool) -> tuple[bool, dict[str, Any] | None]:
        try:
            document = client._run(client._context.get_json(PATH))
        except Unavailable:
            if is_last:
                raise
            return False, None
        answer = _answer(document, wanted)
        return answer["redundant"], answer

    answer = poll(ask, wait, _STEP_S)
    assert answer is not None
    if not output.is_for_people:
        write_line(answer)
    elif answer["redundant"]:
        print(f"All {answer['partitions']} partitions have their replicas.")
    if not answer["redundant"]:
        lines = list(_missing(answer))
        for line in lines[:_MAX_SHOWN]:
            print_stderr(line)
        if len(lines) > _MAX_SHOWN:
            print_stderr(f"… and {len(lines) - _MAX_SHOWN} more")
        raise SystemExit(UNAVAILABLE)


def _answer(document: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """The JSON of the command. `document`: of the admin page."""
    views = document["views"]
    running = {
        instance["id"]
        for instance in document["instances"]
        if instance["in_topology"] and instance["state"] == _RUNNING
    }
    absent = [name for name in dict.fromkeys(wanted) if name not in running]
    empty = [view["name"] for view in views if not view["placement"]]
    below = [
        {
            "view": view["name"],
            "partition": placement["partition"],
            "answered_by": placement["answered_by"],
            "replicas": view["replicas"],
        }
        for view in views
        for placement in below_replicas(view)
    ]
    return {
        "redundant": bool(document["known"]) and not (absent or empty or below),
        "topology_known": document["known"],
        "partitions": sum(len(view["placement"]) for view in views),
        "below": below,
        "without_partitions": empty,
        "not_running": absent,
    }


def _missing(answer: Mapping[str, Any]) -> Iterator[str]:
    """A line for each thing that is missing."""
    if not answer["topology_known"]:
        yield "the instance that was asked does not know the topology yet"
    for name in answer["not_running"]:
        yield f"{name} does not run in this deployment"
    for name in answer["without_partitions"]:
        yield f"view {name} has no partitions: its topic does not exist"
    for partition in answer["below"]:
        able = partition["answered_by"]
        names = f" ({', '.join(able)})" if able else ""
        yield (
            f"view {partition['view']}, partition {partition['partition']}: {len(able)} of "
            f"{partition['replicas']} replicas answer{names}"
        )
