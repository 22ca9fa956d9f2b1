"""`queryable get`: the values of keys."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from queryable import Answer, Client, Unreadable
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import NOT_FOUND, UNREADABLE, print_stderr
from queryable.cli.options import RawKey, complete_key
from queryable.cli.output import RowOutput, write_rows
from queryable.cli.queries import Query
from queryable.cli.values import parse_key
from queryable.client.protocol.answers import Header


@command
def get(
    *,
    query: Query,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", autocompletion=complete_key)],
    raw: RawKey = False,
    local: Annotated[
        bool,
        typer.Option("--local", help="Only the instance at --url answers, from its own stores."),
    ] = False,
    client: Client,
    output: RowOutput,
) -> None:
    """Print the value of one or more keys.

    Exits with 1 if a key is not found, and with 4 if a value is not in the view's format.

    \b
    Examples:
      queryable get latest-departure N14228
      queryable get word-count lambda the of --json
      queryable get prices tea --as-of 2013-03-01T00:00:00Z
    """
    chosen = output.chosen()
    view = client.view(query.view)
    parsed = [parse_key(key, view, raw) for key in keys]
    parameters = query.parameters(client)
    if len(parsed) > 1 and not local and parameters.keys() <= {"stale"}:
        answers = client.get_many(query.view, parsed, **parameters)
    else:
        route: Any = {"route": "local"} if local else {}
        answers = [client.get(query.view, key, **parameters, **route) for key in parsed]
    with_headers = "headers" in query.options
    write_rows([_row(answer, with_headers) for answer in answers if answer], chosen)
    if chosen.is_for_people and len(answers) == 1:
        print_stderr(_source_text(answers[0]))
    if not all(answers):
        missing = ", ".join(key for key, answer in zip(keys, answers, strict=True) if not answer)
        print_stderr(f"not found: {missing}")
        raise SystemExit(NOT_FOUND)
    if any(isinstance(answer.value, Unreadable) for answer in answers):
        raise SystemExit(UNREADABLE)


def _row(answer: Answer, with_headers: bool) -> dict[str, Any]:
    row = {"key": answer.key, "value": answer.value}
    if answer.valid_from is not None:
        row |= {"valid_from": answer.valid_from, "valid_to": answer.valid_to}
    if with_headers:
        row |= {"timestamp": answer.timestamp, "headers": _header_texts(answer.headers)}
    return row


def _header_texts(headers: list[Header] | None) -> list[list[str | None]] | None:
    """Names and values; bytes that are not text are escaped."""
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
