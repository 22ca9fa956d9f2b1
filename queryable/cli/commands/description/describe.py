"""`queryable describe`: the definition of a view, some of its entries, and its state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from queryable import Client, View
from queryable.cli.declaration.command import command
from queryable.cli.description.fields import field_rows
from queryable.cli.description.state import PATH, ViewState, state_lines
from queryable.cli.error_texts import error_text
from queryable.cli.exit_codes import print_stderr
from queryable.cli.options import ViewName
from queryable.cli.output import DocumentOutput, print_table, write_line
from queryable.cli.queries import listing_of
from queryable.cli.values import as_item, json_value, with_iso_times
from queryable.client.protocol.errors import QueryableError

_SHOWN = 3
_FIELDS = (
    "topic", "path", "key", "value", "store", "window_size", "window_unit", "window_zone",
    "retention", "partitioner", "partitions", "version", "quota", "scans",
)  # fmt: skip


@command
def describe(
    *,
    view: ViewName,
    sample: Annotated[
        int, typer.Option(min=0, max=1000, metavar="N", help="Entries to look at.")
    ] = 100,
    seconds: Annotated[
        float, typer.Option(min=0, max=60, metavar="SECONDS", help="Time to measure rates for.")
    ] = 2.0,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Describe a view: schema seen, sample, size, dead letters and rates.

    The schema comes from the first entries. Sizes and entries are estimates, and rates are
    measured while the command runs.

    \b
    Examples:
      queryable describe latest-departure
      queryable describe word-count --sample 0 --seconds 0
    """
    info = client.view(view)
    before = _state(client, info) if seconds else None
    began = time.monotonic()
    entries = _entries(client, info, sample)
    if before is not None:
        time.sleep(max(began + seconds - time.monotonic(), 0))
    after = _state(client, info)
    job = _job(client, info)
    document: dict[str, Any] = {"name": info.name}
    document |= {name: info.description[name] for name in _FIELDS if info.description.get(name)}
    if after is not None:
        document |= after.document(before)
    document |= job
    document["fields"] = field_rows(entry["value"] for entry in entries if "value" in entry)
    if output.is_for_people:
        _print(document, entries[:_SHOWN])
    else:
        shown = [{name: json_value(cell) for name, cell in row.items()} for row in entries[:_SHOWN]]
        write_line({**document, "sample": shown})


def _state(client: Client, view: View) -> ViewState | None:
    """The state of the view; None if the deployment does not return it."""
    try:
        return ViewState.from_document(view.name, client._run(client._context.get_json(PATH)))
    except QueryableError:
        return None


def _job(client: Client, view: View) -> dict[str, Any]:
    """The rate that the Spark job reports, and the estimates of the time that it needs; without
    those that are not known. Empty if no job derives the view."""
    if view.description.get("pipeline") is None:
        return {}
    state = client.pipeline(view.name) or {}
    numbers = {
        "job_records_per_second": state.get("stats", {}).get("processed_rate"),
        "job_seconds_left": state.get("seconds_left"),
        "rebuild_seconds": state.get("rebuild_seconds"),
    }
    return {name: number for name, number in numbers.items() if number is not None}


def _entries(client: Client, view: View, count: int) -> list[dict[str, Any]]:
    """The first entries of the view; none if its store has no listing."""
    if not count:
        return []
    try:
        rows = listing_of(client, view)(view.name, limit=count)
        return [dict(as_item(row._asdict())) for row in rows]
    except QueryableError as error:
        print_stderr(f"no sample: {error_text(error)}")
        return []


def _print(document: Mapping[str, Any], sample: list[dict[str, Any]]) -> None:
    print(document["name"])
    lines = {name.replace("_", " "): document[name] for name in _FIELDS if name in document}
    if "entries" in document:
        lines |= state_lines(document)
    for name, cell in lines.items():
        print(f"  {name:<14}{cell}")
    if document["fields"]:
        print("\nschema seen:")
        print_table(document["fields"])
    if sample:
        print("\nsample:")
        print_table([with_iso_times(row) for row in sample])
