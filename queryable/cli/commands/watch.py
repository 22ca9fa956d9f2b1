"""`queryable watch`: the changes of a key, or of all keys with a prefix."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, NamedTuple

import typer

from queryable import Client, Entry, Unavailable, Unreadable
from queryable.cli.declaration.command import command
from queryable.cli.exit_codes import print_stderr
from queryable.cli.options import RawKey, complete_key
from queryable.cli.output import DocumentOutput
from queryable.cli.queries import Query
from queryable.cli.values import as_item, cell_text, iso_time, json_value, parse_key
from queryable.client.protocol.errors import BadUse

# --prefix exits after this many seconds of failing scans; like the client's `patience` for a key
_PATIENCE_S = 60.0


class _Event(NamedTuple):
    kind: str
    key: Any
    value: Any
    record: Mapping[str, int]
    """Partition and offset; empty if not known."""


@command
def watch(
    *,
    query: Query,
    key: Annotated[str | None, typer.Argument(metavar="KEY", autocompletion=complete_key)] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Time between scans, with --prefix.")
    ] = 1.0,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Exit after this many changes.")
    ] = None,
    raw: RawKey = False,
    client: Client,
    output: DocumentOutput,
) -> None:
    """Print the value of a key, then each change, until Ctrl-C.

    With --prefix, print keys that are added, changed or deleted from now on. The view is scanned
    every --interval seconds; of several changes between two scans only the last one is printed.

    \b
    Examples:
      queryable watch latest-departure N14228
      queryable watch word-count lambda --json | jq --unbuffered .value
      queryable watch notes --prefix N1 --count 10
    """
    if (key is None) == ("prefix" not in query.options):
        raise BadUse("Give either KEY or --prefix.")
    if key is not None:
        parsed = parse_key(key, client.view(query.view), raw)
        events = _key_events(client, query.view, parsed)
    else:
        events = _prefix_events(lambda: query.result(client, client.scan), interval)
    for event in islice(events, count):
        _print(event, output)


def _key_events(client: Client, view: str, key: Any) -> Iterator[_Event]:
    for change in client.changes(view, key):
        record = {"partition": change.partition, "offset": change.offset}
        kind = "deleted" if change.is_deleted else "value"
        if isinstance(change.value, Unreadable):
            kind = "unreadable"
        yield _Event(kind, change.key, change.value, record)


def _prefix_events(scan: Callable[[], Iterable[Entry]], interval: float) -> Iterator[_Event]:
    before = {row.key: row.value for row in scan()}
    scanned_at = time.monotonic()
    while True:
        time.sleep(interval)
        try:
            after = {row.key: row.value for row in scan()}
        except Unavailable as error:
            if error.is_final or time.monotonic() > scanned_at + _PATIENCE_S:
                raise
            print_stderr(f"queryable: not available, retrying: {error}")
            continue
        scanned_at = time.monotonic()
        yield from differences(before, after)
        before = after


def differences(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[_Event]:
    """New and changed keys in the order of the keys, then deleted keys."""
    for key, value in after.items():
        if key not in before:
            yield _Event("new", key, value, {})
        elif _text(before[key]) != _text(value):
            yield _Event("changed", key, value, {})
    for key in before:
        if key not in after:
            yield _Event("deleted", key, None, {})


def _text(value: Any) -> str:
    """A text for comparing values: 1 and true differ, NaN equals NaN."""
    return json.dumps(json_value(value))


def _print(event: _Event, output: DocumentOutput) -> None:
    now = time.time_ns() // 1_000_000
    value = "" if event.kind == "deleted" else cell_text(event.value)
    line = {"time": now, "event": event.kind, "key": event.key, "value": event.value}
    text = f"{iso_time(now)} {event.kind} {cell_text(event.key)} {value}"
    output.show({**as_item(line), **event.record}, text)
    sys.stdout.flush()
