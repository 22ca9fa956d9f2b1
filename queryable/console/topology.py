"""`queryable topology`: who holds what."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console as Screen
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from queryable import Client, Unavailable
from queryable.console.config import AsJson, Common, Timeout, Url
from queryable.console.exits import ends_well, say
from queryable.console.holdings import Document, differences, holders_of, ranges
from queryable.console.output import is_for_people, write_line
from queryable.console.values import iso
from queryable.console.views import pipeline_shown

_ROLES = {
    "topicPartitions": "active",
    "standbyPartitions": "standby",
    "warmingPartitions": "warming",
}
_REMEMBERED = 5


@ends_well
def topology(
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until Ctrl-C, and tell what changes.")
    ] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Which instance holds what.

    The instances with their partitions, and the partitions with their holders.
    As JSON it is the document of GET /processors; with --watch one a line, whenever it is another.

    \b
    Examples:
      queryable topology
      queryable topology --watch
      queryable topology --json | jq -r .epoch
    """
    with Common(url, timeout).client() as client:
        document = client.topology()
        if not is_for_people(as_json):
            _write(document, client, interval if watch else None)
        elif watch:
            _redraw(document, client, interval)
        else:
            Screen().print(drawn(document))
            _print_pipelines(client)


def _print_pipelines(client: Client) -> None:
    """How far what derives the views is; nothing where no view names it."""
    rows = [(view.name, said) for view in client.views() if (said := pipeline_shown(view))]
    if rows:
        table = Table("view", "pipeline")
        for name, said in rows:
            style = "green" if said.startswith("running") else "red"
            table.add_row(Text(name), Text(said, style=style))
        Screen().print(table)


def _write(document: Document, client: Client, interval: float | None) -> None:
    write_line(document)
    for later in _later(client, interval) if interval else ():
        if isinstance(later, Unavailable):
            say(f"queryable: not available for now: {later}")
        elif later != document:
            document = later
            write_line(document)


def _redraw(document: Document, client: Client, interval: float) -> None:
    changes: deque[str] = deque(maxlen=_REMEMBERED)
    # Drawn again when there is something new alone: no thread for that. Changes come first: of
    # tables that are longer than the screen the end is cut off.
    with Live(drawn(document), auto_refresh=False) as live:
        for later in _later(client, interval):
            now = iso(time.time_ns() // 1_000_000_000 * 1000)
            if isinstance(later, Unavailable):
                trouble = Text(f"{now} not available: {later}", style="red")
                live.update(Group(*map(Text, changes), trouble, drawn(document)), refresh=True)
                continue
            for change in differences(document, later):
                changes.append(f"{now} epoch {later['epoch']}: {change}")
            document = later
            live.update(Group(*map(Text, changes), drawn(document)), refresh=True)


def _later(client: Client, interval: float) -> Iterator[Document | Unavailable]:
    """A look every `interval` seconds: the document, or why there is none."""
    while True:
        time.sleep(interval)
        try:
            yield client.topology()
        except Unavailable as error:
            yield error


def drawn(document: Document) -> RenderableType:
    """Its two tables."""
    return Group(Text(f"epoch {document['epoch']}"), _instances(document), _views(document))


def _instances(document: Document) -> Table:
    table = Table("instance", "address", "state", "view", *_ROLES.values())
    for each in document["processors"]:
        running = each["state"] == "running"
        first = [
            Text(each["id"]),
            Text(f"{each['host']}:{each['port']}"),
            Text(each["state"], style="green" if running else "red"),
        ]
        for view in document["views"]:
            held = [ranges(each.get(field, {}).get(view, ())) for field in _ROLES]
            if any(held):
                table.add_row(*first, Text(view), *held)
                first = [Text("")] * 3
        if first[0]:  # it holds nothing
            table.add_row(*first)
        table.add_section()
    return table


def _views(document: Document) -> Table:
    table = Table("view", "partitions", "active", "standbys")
    states = {each["id"]: each["state"] for each in document["processors"]}

    def named(instance: str) -> Text:
        state = states[instance]
        return Text(instance) if state == "running" else Text(f"{instance} ({state})", "red")

    for view in document["views"]:
        by_holders: dict[tuple[str | None, tuple[str, ...]], list[int]] = {}
        for partition, holders in holders_of(document, view).items():
            by_holders.setdefault(holders, []).append(partition)
        name = view
        for (active, standbys), partitions in by_holders.items():
            who = Text("nobody", style="red") if active is None else named(active)
            others = Text(", ").join(map(named, standbys))
            table.add_row(Text(name), ranges(partitions), who, others)
            name = ""
        table.add_section()
    return table
