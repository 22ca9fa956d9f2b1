"""`queryable append`: a record for a view's topic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from queryable import DELETE, Unconfirmed, View
from queryable.console.config import AsJson, Common, Timeout, Url
from queryable.console.exits import UNAVAILABLE, ends_well, say
from queryable.console.options import ViewName
from queryable.console.output import is_for_people, write_line
from queryable.console.values import typed, typed_key
from queryable.core.errors import BadUse


@ends_well
def append(
    view: ViewName,
    key: Annotated[str, typer.Argument(metavar="KEY")],
    value: Annotated[str | None, typer.Argument(metavar="VALUE")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="The key, in place of a value.")] = False,
    value_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The value stands there; -: in stdin.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The key is base64url of its record bytes.")
    ] = False,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Append a record to the topic of a view.

    The view has to say append = "on". The value is typed in the view's format: text, a number,
    JSON. Of a file every byte counts, a line's end too, where values are string or bytes. Ends
    with 3 if it was not confirmed: then the record may be there or not.

    \b
    Examples:
      queryable append notes N102UW '{"note": "checked"}'
      queryable append notes N102UW --value-file note.json
      queryable append notes N102UW --delete
      queryable append notes N102UW -- -5
    """
    if (value is not None) + delete + (value_file is not None) != 1:
        raise BadUse("One of VALUE, --delete and --value-file is needed.")
    with Common(url, timeout).client() as client:
        described = client.view(view)
        record = DELETE if delete else _value(value, value_file, described)
        try:
            written = client.append(view, typed_key(key, described, raw), record)
        except Unconfirmed as error:
            say(
                f"queryable: not confirmed: the record may be in {described.topic} or not; "
                f"look with `queryable get {view} …` before it is appended again.\n{error}"
            )
            raise SystemExit(UNAVAILABLE) from None
    if is_for_people(as_json):
        print(f"partition {written.partition}, offset {written.offset}")
    else:
        write_line(written._asdict())


def _value(text: str | None, file: str | None, view: View) -> Any:
    """BadUse."""
    if text is None:
        text = _read(file or "-")
        if view.value.name not in ("string", "bytes"):
            text = text.strip()
    return typed(text, view.value)


def _read(file: str) -> str:
    try:
        found = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise BadUse(f"{file} cannot be read: {error.strerror}.") from None
    return found.decode("utf-8", "surrogateescape")
