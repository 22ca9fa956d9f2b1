"""`queryable get`: what is there under a key."""

from __future__ import annotations

from typing import Annotated

import typer

from queryable import Answer
from queryable.console.config import AsJson, Common, Timeout, Url
from queryable.console.exits import NOT_THERE, ends_well, say
from queryable.console.options import StaleOption, ViewName
from queryable.console.output import is_for_people, print_table, write_line
from queryable.console.values import readable, typed_key
from queryable.core.parameters import Stale


@ends_well
def get(
    view: ViewName,
    keys: Annotated[list[str], typer.Argument(metavar="KEY…")],
    raw: Annotated[
        bool, typer.Option("--raw", help="Keys are base64url of their record bytes.")
    ] = False,
    as_of: Annotated[
        str | None, typer.Option(help="What was valid then (versioned views): ISO 8601 or ms.")
    ] = None,
    max_lag: Annotated[int | None, typer.Option(help="At most so many records behind.")] = None,
    max_staleness: Annotated[str | None, typer.Option(help="Such as 500ms, 5s, 1m.")] = None,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """What is there under one key, or under several.

    Ends with 1 if one of them is not there.

    \b
    Examples:
      queryable get latest-departure N14228
      queryable get word-count lambda the of --json
      queryable get prices tea --as-of 2013-03-01T00:00:00Z
    """
    chosen: Stale | None = stale  # type: ignore[assignment]  # the API says what it may be
    with Common(url, timeout).client() as client:
        described = client.view(view)
        typed = [typed_key(key, described, raw) for key in keys]
        if len(typed) > 1 and as_of is None and max_lag is None and max_staleness is None:
            answers = client.get_many(view, typed, stale=chosen)
        else:
            answers = [
                client.get(
                    view, key, as_of=as_of, stale=chosen, max_lag=max_lag,
                    max_staleness=max_staleness,
                )
                for key in typed
            ]  # fmt: skip
    _show(answers, as_json)
    if not all(answers):
        missing = ", ".join(key for key, answer in zip(keys, answers, strict=True) if not answer)
        say(f"not there: {missing}")
        raise SystemExit(NOT_THERE)


def _show(answers: list[Answer], as_json: bool) -> None:
    rows = []
    for answer in filter(None, answers):
        row = {"key": answer.key, "value": answer.value}
        if answer.valid_from is not None:
            row |= {"valid_from": answer.valid_from, "valid_to": answer.valid_to}
        rows.append(row)
    if not is_for_people(as_json):
        for row in rows:
            write_line(row)
        return
    if rows:
        print_table([readable(row) for row in rows])
    if len(answers) == 1:
        [of] = answers
        where = "all partitions" if of.partition is None else f"partition {of.partition}"
        behind = "unknown" if of.lag is None else f"{of.lag} records behind"
        say(f"{where} at {of.position}, {behind}, from {', '.join(of.instances)}")
