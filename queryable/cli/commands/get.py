"""`queryable get`: the values of keys."""

from __future__ import annotations

from typing import Annotated

import typer

from queryable import Answer, Unreadable
from queryable.cli.config import Connection
from queryable.cli.exit_codes import NOT_FOUND, UNREADABLE, print_stderr, reports_errors
from queryable.cli.options import (
    AsCsv,
    AsJson,
    RawKey,
    StaleOption,
    Timeout,
    TokenFile,
    Url,
    Vertical,
    ViewName,
    check_duration,
)
from queryable.cli.output import Output, output_of, write_rows
from queryable.cli.values import parse_key
from queryable.client.protocol.answers import Header
from queryable.client.protocol.parameters import Stale

app = typer.Typer()


@app.command()
@reports_errors
def get(
    view: ViewName,
    keys: Annotated[list[str], typer.Argument(metavar="KEY")],
    raw: RawKey = False,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The value that was valid at this time: ISO 8601 or epoch ms. Versioned views.",
        ),
    ] = None,
    max_lag: Annotated[
        int | None,
        typer.Option(min=0, metavar="RECORDS", help="Reject answers further behind."),
    ] = None,
    max_staleness: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            callback=check_duration,
            help="Reject older answers: 500ms, 5s, 1m.",
        ),
    ] = None,
    stale: StaleOption = None,
    local: Annotated[
        bool,
        typer.Option("--local", help="Only the instance at --url answers, from its own stores."),
    ] = False,
    headers: Annotated[
        bool,
        typer.Option("--headers", help="Print the headers of the record, and when it was written."),
    ] = False,
    url: Url = None,
    timeout: Timeout = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    vertical: Vertical = False,
) -> None:
    """Print the value of one or more keys.

    Exits with 1 if a key is not found, and with 4 if a value is not in the view's format.

    \b
    Examples:
      queryable get latest-departure N14228
      queryable get word-count lambda the of --json
      queryable get prices tea --as-of 2013-03-01T00:00:00Z
    """
    output = output_of(as_json, as_csv, vertical)
    mode: Stale | None = stale  # type: ignore[assignment]  # `one_of` checks it
    with Connection(url, timeout, token_file).client() as client:
        view_info = client.view(view)
        parsed = [parse_key(key, view_info, raw) for key in keys]
        plain = as_of is None and max_lag is None and max_staleness is None and not local
        plain = plain and not headers
        if len(parsed) > 1 and plain:
            answers = client.get_many(view, parsed, stale=mode)
        else:
            answers = [
                client.get(
                    view, key, as_of=as_of, stale=mode, max_lag=max_lag,
                    max_staleness=max_staleness, route="local" if local else None,
                    headers=headers,
                )
                for key in parsed
            ]  # fmt: skip
    _print(answers, output, headers)
    if not all(answers):
        missing = ", ".join(key for key, answer in zip(keys, answers, strict=True) if not answer)
        print_stderr(f"not found: {missing}")
        raise SystemExit(NOT_FOUND)
    if any(isinstance(answer.value, Unreadable) for answer in answers):
        raise SystemExit(UNREADABLE)


def _print(answers: list[Answer], output: Output, with_headers: bool) -> None:
    rows = []
    for answer in filter(None, answers):
        row = {"key": answer.key, "value": answer.value}
        if answer.valid_from is not None:
            row |= {"valid_from": answer.valid_from, "valid_to": answer.valid_to}
        if with_headers:
            row |= {"timestamp": answer.timestamp, "headers": _shown(answer.headers)}
        rows.append(row)
    write_rows(rows, output)
    if output.is_for_people and len(answers) == 1:
        print_stderr(_source_text(answers[0]))


def _shown(headers: list[Header] | None) -> list[list[str | None]] | None:
    """Names and values; bytes that are no text are escaped."""
    if headers is None:
        return None
    return [
        [name, None if value is None else value.decode(errors="backslashreplace")]
        for name, value in headers
    ]


def _source_text(answer: Answer) -> str:
    place = "all partitions" if answer.partition is None else f"partition {answer.partition}"
    lag = "lag unknown" if answer.lag is None else f"lag {answer.lag}"
    return f"{place}, position {answer.position}, {lag}, from {', '.join(answer.instances)}"
