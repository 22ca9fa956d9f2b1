"""`queryable topology`: which instance has which partitions."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from queryable import Client, Unavailable
from queryable.cli.commands.description.views import pipeline_text
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import print_stderr
from queryable.cli.output import DocumentOutput, write_line
from queryable.cli.topology_document import Document, differences, ranges, replicas_of
from queryable.cli.values import iso_time

_UNLIMITED = 10_000  # characters
_ROLES = {
    "topicPartitions": "active",
    "standbyPartitions": "standby",
    "warmingPartitions": "warming",
}
_MAX_CHANGES = 5
"""Changes shown above the tables with `--watch`."""


@command
def topology(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Update until Ctrl-C, and show what changes.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Time between updates, with --watch.")
    ] = 1.0,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Print which instance has which partitions.

    Two tables: the partitions of each instance, and the instances of each partition. As JSON, print
    the document of GET /processors; with --watch, print it again whenever it changes.

    \b
    Examples:
      queryable topology
      queryable topology --watch
      queryable topology --json | jq -r .epoch
    """
    document = client.topology()
    if not output.is_for_people:
        _write(document, client, interval if watch else None)
    elif watch:
        _redraw(document, client, interval)
    else:
        Console().print(tables(document))
        _print_pipelines(client)


def _print_pipelines(client: Client) -> None:
    """The states of the pipelines; nothing if no view names one."""
    rows = [(view.name, text) for view in client.views() if (text := pipeline_text(view))]
    if rows:
        table = Table("view", "pipeline")
        for name, text in rows:
            style = "green" if text.startswith("running") else "red"
            table.add_row(Text(name), Text(text, style=style))
        Console().print(table)


def _write(document: Document, client: Client, interval: float | None) -> None:
    _write_now(document)
    for later in _updates(client, interval) if interval else ():
        if isinstance(later, Unavailable):
            print_stderr(f"queryable: not available, retrying: {later}")
        elif later != document:
            document = later
            _write_now(document)


def _write_now(document: Document) -> None:
    """Flushes, because the reader of a pipe waits for each document."""
    write_line(document)
    sys.stdout.flush()


def _redraw(document: Document, client: Client, interval: float) -> None:
    changes: deque[str] = deque(maxlen=_MAX_CHANGES)
    # Auto-refresh would need a thread. Changes come first, because rich cuts off output that does
    # not fit on the screen.
    with Live(tables(document), auto_refresh=False) as live:
        for later in _updates(client, interval):
            now = iso_time(time.time_ns() // 1_000_000_000 * 1000)
            if isinstance(later, Unavailable):
                error = Text(f"{now} not available: {later}", style="red")
                live.update(Group(*map(Text, changes), error, tables(document)), refresh=True)
                continue
            for change in differences(document, later):
                changes.append(f"{now} epoch {later['epoch']}: {change}")
            document = later
            live.update(Group(*map(Text, changes), tables(document)), refresh=True)


def _updates(client: Client, interval: float) -> Iterator[Document | Unavailable]:
    """Yields the document, or the error, every `interval` seconds."""
    while True:
        time.sleep(interval)
        try:
            yield client.topology()
        except Unavailable as error:
            yield error


def tables(document: Document) -> RenderableType:
    """The epoch, the partitions of each instance, and the instances of each partition."""
    return Group(Text(f"epoch {document['epoch']}"), _Fitting(document), _views_table(document))


class _Fitting:
    """The instances; if the terminal is narrow, with the addresses below the names."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = _instances_table(self._document)
        fits = Measurement.get(console, options.update(width=_UNLIMITED), wide).maximum
        yield wide if fits <= options.max_width else _instances_table(self._document, "\n")


def _instances_table(document: Document, separator: str = "") -> Table:
    """The instances with their partitions. With `separator`, name and address are in one column."""
    names = ("instance",) if separator else ("instance", "address")
    table = Table(*names, "state", "view", *_ROLES.values())
    for processor in document["processors"]:
        running = processor["state"] == "running"
        name, address = processor["id"], f"{processor['host']}:{processor['port']}"
        places = [name + separator + address] if separator else [name, address]
        state = Text(processor["state"], style="green" if running else "red")
        cells = [*map(Text, places), state]
        for view in document["views"]:
            partitions = [ranges(processor.get(field, {}).get(view, ())) for field in _ROLES]
            if any(partitions):
                table.add_row(*cells, Text(view), *partitions)
                cells = [Text("")] * len(cells)
        if cells[0]:  # the instance has no partitions
            table.add_row(*cells)
        table.add_section()
    return table


def _views_table(document: Document) -> Table:
    table = Table("view", "partitions", "active", "standbys")
    states = {processor["id"]: processor["state"] for processor in document["processors"]}

    def instance_cell(instance: str) -> Text:
        state = states[instance]
        return Text(instance) if state == "running" else Text(f"{instance} ({state})", "red")

    for view in document["views"]:
        by_replicas: dict[tuple[str | None, tuple[str, ...]], list[int]] = {}
        for partition, replicas in replicas_of(document, view).items():
            by_replicas.setdefault(replicas, []).append(partition)
        name = view
        for (active, standbys), partitions in by_replicas.items():
            active_cell = Text("none", style="red") if active is None else instance_cell(active)
            standbys_cell = Text(", ").join(map(instance_cell, standbys))
            table.add_row(Text(name), ranges(partitions), active_cell, standbys_cell)
            name = ""
        table.add_section()
    return table
