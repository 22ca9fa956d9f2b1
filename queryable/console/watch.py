"""`queryable watch`: the changes of a key, or of all keys with a prefix, as they come."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, NamedTuple

import typer

from queryable import Client, Unavailable, View
from queryable.console.config import AsJson, Common, Timeout, Url
from queryable.console.exits import ends_well, say
from queryable.console.options import ViewName, prefix_of
from queryable.console.output import is_for_people, write_line
from queryable.console.values import iso, plain, shown, typed_key
from queryable.core.errors import BadUse

# s for which looks may fail before that is an error; as long as the client follows a key
_PATIENCE = 60.0


class _Told(NamedTuple):
    event: str
    key: Any
    value: Any
    more: Mapping[str, int]


@ends_well
def watch(
    view: ViewName,
    key: Annotated[str | None, typer.Argument(metavar="KEY")] = None,
    prefix: Annotated[
        str | None, typer.Option(help="In place of a key: all keys that begin so.")
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two looks at a prefix.")
    ] = 1.0,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many lines.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The key is base64url of its record bytes.")
    ] = False,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """What is there under a key, then each change, until Ctrl-C.

    With --prefix: keys that are new, changed or deleted from now on. They are looked at every
    --interval seconds: of several changes between two looks the last one is told.

    \b
    Examples:
      queryable watch latest-departure N14228
      queryable watch word-count lambda --json | jq --unbuffered .value
      queryable watch notes --prefix N1 --count 10
    """
    if (key is None) == (prefix is None):
        raise BadUse("A KEY is needed, or --prefix.")
    with Common(url, timeout).client() as client:
        described = client.view(view)
        if key is not None:
            changes = _of_key(client, view, typed_key(key, described, raw))
        else:
            changes = _of_prefix(client, described, prefix, interval)
        for told in islice(changes, count):
            _write(told, as_json)


def _of_key(client: Client, view: str, key: Any) -> Iterator[_Told]:
    for change in client.changes(view, key):
        place = {"partition": change.partition, "offset": change.offset}
        event = "deleted" if change.is_deleted else "value"
        yield _Told(event, change.key, change.value, place)


def _of_prefix(client: Client, view: View, prefix: str | None, interval: float) -> Iterator[_Told]:
    known = _look(client, view, prefix)
    reached = time.monotonic()
    while True:
        time.sleep(interval)
        try:
            found = _look(client, view, prefix)
        except Unavailable as error:
            if error.is_final or time.monotonic() > reached + _PATIENCE:
                raise
            say(f"queryable: not available for now: {error}")
            continue
        reached = time.monotonic()
        yield from differences(known, found)
        known = found


def _look(client: Client, view: View, prefix: str | None) -> dict[Any, Any]:
    return {row.key: row.value for row in client.scan(view.name, prefix=prefix_of(prefix, view))}


def differences(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[_Told]:
    """In the order of the keys, but for those that are gone, which come last."""
    for key, value in after.items():
        if key not in before:
            yield _Told("new", key, value, {})
        elif _text(before[key]) != _text(value):
            yield _Told("changed", key, value, {})
    for key in before:
        if key not in after:
            yield _Told("deleted", key, None, {})


def _text(value: Any) -> str:
    """What tells 1 from true, which Python takes for the same; and NaN is NaN."""
    return json.dumps(plain(value))


def _write(told: _Told, as_json: bool) -> None:
    now = time.time_ns() // 1_000_000
    if is_for_people(as_json):
        value = "" if told.event == "deleted" else shown(told.value)
        print(iso(now), told.event, shown(told.key), value)
    else:
        line = {"time": now, "event": told.event, "key": told.key, "value": told.value}
        write_line({**line, **told.more})
    sys.stdout.flush()
