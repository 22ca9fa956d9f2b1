"""`queryable append`: append a record to a view's topic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from queryable import DELETE, Client, Unconfirmed, View
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import UNAVAILABLE, print_stderr
from queryable.cli.options import Key, RawKey, ViewName
from queryable.cli.output import DocumentOutput
from queryable.cli.values import parse_key, parse_value
from queryable.client.protocol.errors import BadUse


@command
def append(
    *,
    view: ViewName,
    key: Key,
    value: Annotated[str | None, typer.Argument(metavar="VALUE")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the key.")] = False,
    value_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Read the value from FILE, or from stdin (-)."),
    ] = None,
    raw: RawKey = False,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Append a record to a view's topic, or delete a key.

    The view must be declared with append = "on". VALUE is written in the view's format: text, a
    number, JSON. The value in a FILE includes the final newline if the format is string or bytes.

    Exits with 3 if the record was not confirmed: it may have been written.

    \b
    Examples:
      queryable append notes N102UW '{"note": "checked"}'
      queryable append notes N102UW --value-file note.json
      queryable append notes N102UW --delete
      queryable append notes N102UW -- -5
    """
    if (value is not None) + delete + (value_file is not None) != 1:
        raise BadUse("Give exactly one of VALUE, --delete and --value-file.")
    view_info = client.view(view)
    record = DELETE if delete else _value(value, value_file, view_info)
    try:
        appended = client.append(view, parse_key(key, view_info, raw), record)
    except Unconfirmed as error:
        print_stderr(
            f"queryable: not confirmed: the record may be in topic {view_info.topic}. Read the "
            f"key with `queryable get {view} …` before you append the record again.\n{error}"
        )
        raise SystemExit(UNAVAILABLE) from None
    text = f"partition {appended.partition}, offset {appended.offset}"
    output.show(appended._asdict(), text)


def _value(text: str | None, file: str | None, view: View) -> Any:
    """The value from the argument, the file or stdin. Raises BadUse."""
    if text is None:
        text = _read(file or "-")
        if not view.value.python.is_typed_text:
            text = text.strip()
    return parse_value(text, view.value, "VALUE")


def _read(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise BadUse(f"Cannot read {file}: {error.strerror}.") from None
    return content.decode("utf-8", "surrogateescape")
