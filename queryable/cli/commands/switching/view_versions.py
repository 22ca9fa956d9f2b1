"""`queryable compare`, `switch`, `rollback` and `drop`: versions of a view."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from queryable import Client
from queryable.cli.declaration.command import command
from queryable.cli.diff.comparison import print_differences
from queryable.cli.diff.sources import DiffSource
from queryable.cli.exit_codes import print_stderr
from queryable.cli.options import (
    ComparisonOptions,
    Confirmation,
    Force,
    Switch,
    ViewName,
    complete_view,
)
from queryable.cli.output import DocumentOutput, print_table, write_line
from queryable.cli.progress import poll
from queryable.cli.values import number_text
from queryable.client.protocol.errors import BadUse, QueryableError, Unavailable

_FOLLOWED_WITHIN_S = 5.0  # a command waits this long until all instances follow
_STEP_S = 0.05

Version = Annotated[
    str, typer.Argument(metavar="VIEW@VERSION", autocompletion=complete_view, show_default=False)
]


@command
def compare(
    *,
    first: Version,
    second: Version,
    comparison: ComparisonOptions,
    full: Annotated[
        bool, typer.Option("--full", help="Compare all entries, not a sample.")
    ] = False,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Compare two versions of a view.

    Prints the keys that are only in one of them, and those whose values differ. Entries that
    differ are read again from both, because they may have changed meanwhile. Exits with 0 if there
    is no difference, 1 if there are some, 3 if a version is not available.

    \b
    Examples:
      queryable compare orders@1 orders@2
      queryable compare orders@1 orders@2 --sample 20000
      queryable compare orders@1 orders@2 --full --show 100
    """
    sources = (
        DiffSource("", client, first, by_name=True),
        DiffSource("", client, second, by_name=True),
    )
    print_differences(sources, None if full else comparison.sample, comparison.show, output)


@command
def switch(*, version: Version, change: Switch, client: Client, output: DocumentOutput) -> None:
    """Make another version of a view current.

    It is refused unless the job of the version runs, and the version is complete: the job has read
    its sources up to the ends that they have now, and all replicas have applied what it wrote. That
    takes some seconds. --wait waits longer. Exits with 2 if it is refused. `queryable rollback`
    goes back. Needs the scope admin.

    \b
    Examples:
      queryable switch orders@2
      queryable switch orders@2 --wait
    """
    view, number = _parse(version)
    _report(client, change.apply(partial(client.switch, view, number)), output)


@command
def rollback(
    *, view: ViewName, force: Force = False, client: Client, output: DocumentOutput
) -> None:
    """Make the previous version of a view current again.

    It takes less than a second. Exits with 2 if there is no previous version, if it cannot answer,
    or if its job no longer runs. Needs the scope admin.

    \b
    Examples:
      queryable rollback orders
    """
    _report(client, client.rollback(view, force=force), output)


@command
def drop(
    *,
    version: Version,
    delete_topic: Annotated[
        bool, typer.Option("--delete-topic", help="Delete its topic, too.")
    ] = False,
    confirmation: Confirmation,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Remove a version of a view that is not current.

    Its stores are deleted on all instances, and it cannot become current again. The number is not
    used again. Asks first, unless --yes is given. Exits with 2 if it is refused. Before
    --delete-topic, stop the pipeline that writes the topic. Needs the scope admin.

    \b
    Examples:
      queryable drop orders@1
      queryable drop orders@1 --delete-topic --yes
    """
    view, number = _parse(version)
    topic = " and its topic" if delete_topic else ""
    confirmation.require(f"Delete the stores of {version}{topic} in the whole deployment?")
    answer = client.drop(view, number, delete_topic=delete_topic)
    output.show(answer, f"{version} is dropped. Remove its entry from views.toml.")


def print_view_versions(client: Client, view: str, output: DocumentOutput) -> None:
    """Prints the progress of each version of a view: `queryable versions VIEW`."""
    document = client.view_versions(view)
    if not output.is_for_people:
        write_line(document)
        return
    columns = {version["name"]: _cells(document, version) for version in document["versions"]}
    fields = list(dict.fromkeys(field for cells in columns.values() for field in cells))
    print_table(
        [
            {"": field, **{name: cells.get(field, "") for name, cells in columns.items()}}
            for field in fields
        ]
    )
    for version in document["versions"]:
        for waiting in version["waiting"]:
            print(
                f"{version['name']}: partition {waiting['partition']} on "
                f"{waiting['instance'] or 'no instance'}: {waiting['state']}, "
                f"lag {number_text(waiting['lag'])}"
            )
    for instance in document["instances"]:
        if instance["current"] != document["current"]:
            current = instance["current"]
            state = f"version {current} is current" if current else f"unknown ({instance['state']})"
            print(f"instance {instance['id']}: {state}")


def _cells(document: dict[str, Any], version: dict[str, Any]) -> dict[str, object]:
    number, seconds, pipeline = version["version"], version["seconds_left"], version["pipeline"]
    cells = {
        "role": {document["previous"]: "previous", document["current"]: "current"}.get(number, ""),
        "topic": version["topic"],
        "answerable": f"{version['answerable']} of {version['replicas']}",
        "lag": number_text(version["lag"]),
        "seconds left": "unknown" if seconds is None else f"{seconds:,.0f}",
        "entries": f"about {version['entries']:,}",
    }
    if pipeline is not None:
        cells["pipeline"] = f"{pipeline['state']}, lag {number_text(pipeline['lag'])}"
    return cells


def _parse(text: str) -> tuple[str, int]:
    """The view and the version of "orders@2". Raises BadUse."""
    view, _, number = text.partition("@")
    if not view or not number.isdecimal() or len(number) > 6:
        raise BadUse(f"{text!r} does not name a version of a view, such as orders@2.")
    return view, int(number)


def _report(client: Client, change: dict[str, Any], output: DocumentOutput) -> None:
    """Prints the new state when all instances follow it, or after a while the instances that do not
    (None if they are not known). The change has been made, so an error here does not make the
    command fail."""

    def ask(_: bool) -> tuple[bool, list[str] | QueryableError]:
        try:
            document = client.view_versions(change["view"])
        except QueryableError as error:
            return not isinstance(error, Unavailable), error
        behind = [i["id"] for i in document["instances"] if i["current"] != change["current"]]
        return not behind or document["revision"] > change["revision"], behind

    result = poll(ask, _FOLLOWED_WITHIN_S, _STEP_S)
    behind = None if isinstance(result, QueryableError) else result
    if isinstance(result, QueryableError):
        print_stderr(f"It is not known which instances follow: {result.detail}")
    text = (
        f"{change['view']}: version {change['current']} is current, version {change['previous']} "
        "is the previous one"
    )
    if behind:
        text += f"\nThese instances do not follow yet: {', '.join(behind)}"
    output.show({**change, "behind": behind}, text)
