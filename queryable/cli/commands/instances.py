"""`queryable drain`, `undrain` and `rebuild`: maintenance of one instance."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import UNAVAILABLE, print_stderr
from queryable.cli.options import Confirmation, ViewName, complete_instance
from queryable.cli.output import DocumentOutput, write_line
from queryable.cli.progress import poll
from queryable.client.protocol.errors import Unavailable

_STEP_S = 0.25
_ROLES = ("topicPartitions", "standbyPartitions", "warmingPartitions")

Instance = Annotated[
    str,
    typer.Argument(metavar="INSTANCE", autocompletion=complete_instance, show_default=False),
]


@command
def drain(
    *,
    instance: Instance,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for the others.")
    ] = 300,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Move all partitions of an instance to others.

    Use it before maintenance. The instance answers until the others have caught up. It stays in the
    deployment without partitions until undrain, or until it is restarted.

    Waits until the instance has no partition left. Exits with 2 if there is no such instance or no
    other one, 3 if it still has partitions after --wait, or leaves the deployment meanwhile. Needs
    the scope admin.

    \b
    Examples:
      queryable drain b1
      queryable drain b1 --wait 1800
    """
    client.drain(instance)
    remaining = _wait_drained(client, instance, wait)
    if remaining is None:
        print_stderr(
            f"{instance} left the deployment before others had taken over all its partitions. "
            "`queryable topology` shows those that no other instance answers for yet."
        )
        raise SystemExit(UNAVAILABLE)
    if not output.is_for_people:
        write_line({"instance": instance, "drained": True, "partitions": remaining})
    elif not remaining:
        print(f"{instance} has no partition left. You can stop it.")
    if remaining:
        print_stderr(f"{instance} still has {remaining} partitions: look at `queryable topology`.")
        raise SystemExit(UNAVAILABLE)


@command
def undrain(*, instance: Instance, client: Client, output: DocumentOutput) -> None:
    """Give a drained instance its share of the partitions again.

    Does not wait until it has caught up: `queryable topology --watch` shows it. Exits with 2 if
    there is no such instance. Needs the scope admin.

    \b
    Examples:
      queryable undrain b1
    """
    answer = client.undrain(instance)
    output.show(answer, f"{instance} takes part again.")


@command
def rebuild(
    *,
    instance: Instance,
    view: ViewName,
    partition: Annotated[int, typer.Argument(min=0, metavar="PARTITION", show_default=False)],
    force: Annotated[
        bool,
        typer.Option("--force", help="Also if no other instance answers for it meanwhile."),
    ] = False,
    confirmation: Confirmation,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Build an instance's store of a partition again.

    Deletes the store. It is then copied from another instance, or built from the topic; meanwhile
    others answer. Asks first, unless --yes is given. Does not wait until it is done: `queryable
    topology --watch` shows it.

    Exits with 2 if the instance does not have the partition, or if no other instance answers for
    it and --force is not given. Needs the scope admin.

    \b
    Examples:
      queryable rebuild b1 orders 3
      queryable rebuild b1 orders 3 --force --yes
    """
    confirmation.require(
        f"Delete the store of partition {partition} of {view} on {instance}, and build it again?"
    )
    answer = client.rebuild(instance, view, partition, force=force)
    output.show(answer, f"Partition {partition} of {view} is being rebuilt on {instance}.")


def _wait_drained(client: Client, instance: str, seconds: float) -> int | None:
    """Waits until the instance has no partition; returns how many it still has, or None if it has
    left the deployment. Raises Unavailable if the deployment does not answer at the end of the
    wait."""

    def ask(is_last: bool) -> tuple[bool, int | None]:
        try:
            remaining = _partitions(client.topology(), instance)
        except Unavailable:
            if is_last:
                raise
            return False, None
        return not remaining, remaining

    return poll(ask, seconds, _STEP_S)


def _partitions(topology: Any, instance: str) -> int | None:
    """The number of partitions that an instance has; None if the topology does not list it."""
    for processor in topology["processors"]:
        if processor["id"] == instance:
            views = (processor.get(role, {}) for role in _ROLES)
            return sum(len(partitions) for view in views for partitions in view.values())
    return None
