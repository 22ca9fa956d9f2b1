"""`queryable derive`: evaluate a derived view on files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import NOT_FOUND, print_stderr
from queryable.cli.optional_dependencies import server_extra
from queryable.cli.options import ViewsFile
from queryable.client.protocol.errors import BadUse


@command
def derive(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="A view with a table derive.")],
    input: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="The records: one JSON value per line."),
    ] = None,
    expect: Annotated[
        Path | None,
        typer.Option(
            "--expect", metavar="FILE", help="The expected entries, as this command prints them."
        ),
    ] = None,
    records: Annotated[
        bool,
        typer.Option(
            "--records",
            help="Each line of --input has key, value, timestamp and partition.",
        ),
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME=FILE",
            help="The records of a joined table, with key and value; repeat it for others.",
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Timestamp of records without one. [default: 2026-01-01T00:00:00Z]"
        ),
    ] = None,
    views: ViewsFile = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print the steps, the state and what a replay needs."),
    ] = False,
) -> None:
    """Evaluate a derived view on files, without Kafka and Spark.

    Prints an entry of the view per line, and dead letters with their reasons on stderr. Whether a
    record is late or early depends on its timestamp, as in the job. Exits with 1 if the entries are
    not those of --expect, in any order, and prints the difference.

    A line of --input is the value of a record. With --records it is an object; all members are
    optional: {"key": "k", "value": {…}, "timestamp": "2026-01-01T00:00:00Z", "partition": 0}.

    \b
    Examples:
      queryable derive orders-by-shop --input orders.jsonl
      queryable derive orders-by-shop --input orders.jsonl --expect out.jsonl
      queryable derive by-maker --input flights.jsonl --table plane=planes.jsonl
      queryable derive clicks --input clicks.jsonl --records
      queryable derive orders-by-shop --explain
    """
    with server_extra("derive"):
        from queryable.cli.derivation import trial
    path = views or Path(os.environ.get("QUERYABLE_VIEWS", "views.toml"))
    chosen = trial.read_view(path, view)
    if explain:
        print(trial.explanation(chosen))
    if input is None:
        if not explain:
            raise BadUse("Give --input FILE with records, or --explain.")
        return
    result = trial.evaluated(chosen, input, records, table or [], timestamp)
    for letter in result.dead_letters:
        where = "" if letter.table is None else f"table {letter.table}, "
        print_stderr(f"{where}record {letter.number}: {letter.reason}")
    if expect is None:
        for line in result.lines():
            print(line)
        return
    difference = trial.difference(result, expect)
    for line in difference:
        print(line)
    if difference:
        raise SystemExit(NOT_FOUND)
    print_stderr(f"{len(result.entries)} entries, as expected")
