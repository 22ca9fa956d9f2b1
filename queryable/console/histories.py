"""`queryable windows`, `sessions` and `versions`: what a view has of a key over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from queryable import ALL_KEYS, View
from queryable.console.config import AsJson, Common, Timeout, Url
from queryable.console.exits import ends_well, found_or_end
from queryable.console.options import Limit, Order, StaleOption, ViewName, bound
from queryable.console.output import is_for_people, sparkline, write_rows
from queryable.console.values import readable, typed_key

Key = Annotated[str | None, typer.Argument(metavar="KEY", help="Of all keys without it.")]
OneKey = Annotated[str, typer.Argument(metavar="KEY")]
From = Annotated[str | None, typer.Option("--from", help="ISO 8601 with a zone, or epoch ms.")]
To = Annotated[str | None, typer.Option("--to", help="The same.")]
KeyFrom = Annotated[str | None, typer.Option("--key-from", help="The first key.")]
KeyTo = Annotated[str | None, typer.Option("--key-to", help="The last key.")]


@ends_well
def windows(
    view: ViewName,
    key: Key = None,
    from_: From = None,
    to: To = None,
    key_from: KeyFrom = None,
    key_to: KeyTo = None,
    order: Order = "asc",
    limit: Limit = None,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """The windows of a key, or of all keys.

    Those that start within the bounds, which are within. Ends with 1 if there is none.

    \b
    Examples:
      queryable windows bookings anna
      queryable windows bookings anna --from 2013-01-02T00:00:00Z
      queryable windows bookings --key-from a --key-to c --limit 100
    """
    with Common(url, timeout).client() as client:
        described = client.view(view)
        rows = client.windows(
            view, **_bounds(described, key, key_from, key_to),
            **_asked(from_, to, order, limit, stale),
        )  # fmt: skip
        written = _show(rows, as_json, has_line=key is not None, is_backwards=order == "desc")
    found_or_end(written, f"no such window is there in {view}")


@ends_well
def sessions(
    view: ViewName,
    key: Key = None,
    from_: From = None,
    to: To = None,
    key_from: KeyFrom = None,
    key_to: KeyTo = None,
    order: Order = "asc",
    limit: Limit = None,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """The sessions of a key, or of all keys.

    Those that overlap the time from one bound to the other. Ends with 1 if there is none.

    \b
    Examples:
      queryable sessions visits anna
      queryable sessions visits --from 2013-01-01T00:00:00Z --to 2013-01-01T00:30:00Z
    """
    with Common(url, timeout).client() as client:
        described = client.view(view)
        rows = client.sessions(
            view, **_bounds(described, key, key_from, key_to),
            **_asked(from_, to, order, limit, stale),
        )  # fmt: skip
        written = _show(rows, as_json, has_line=key is not None, is_backwards=order == "desc")
    found_or_end(written, f"no such session is there in {view}")


@ends_well
def versions(
    view: ViewName,
    key: OneKey,
    from_: From = None,
    to: To = None,
    order: Order = "asc",
    limit: Limit = None,
    stale: StaleOption = None,
    url: Url = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """The versions of a key.

    Those that were valid at any moment within the bounds. Ends with 1 if there is none.

    \b
    Examples:
      queryable versions prices tea
      queryable versions prices tea --from 2013-06-01T00:00:00Z
    """
    with Common(url, timeout).client() as client:
        described = client.view(view)
        rows = client.versions(
            view, typed_key(key, described), **_asked(from_, to, order, limit, stale)
        )
        written = _show(rows, as_json, has_line=True, is_backwards=order == "desc")
    found_or_end(written, f"no such version is there in {view}")


def _bounds(
    view: View, key: str | None, key_from: str | None, key_to: str | None
) -> dict[str, Any]:
    return {
        "key": ALL_KEYS if key is None else typed_key(key, view),
        "key_from": bound(key_from, view),
        "key_to": bound(key_to, view),
    }


def _asked(
    from_: str | None, to: str | None, order: str, limit: int | None, stale: str | None
) -> dict[str, Any]:
    return {"from_": from_, "to": to, "order": order, "limit": limit, "stale": stale}


def _show(rows: Iterable[Any], as_json: bool, has_line: bool, is_backwards: bool) -> int:
    """How many. `has_line`: they are of one key, whose numbers make a line over time."""
    if not is_for_people(as_json):
        return write_rows((row._asdict() for row in rows), as_json)
    numbers: list[float] = []
    written = write_rows(_readable(rows, numbers), as_json)
    if has_line and len(numbers) == written > 1:
        console = Console()
        ordered = numbers[::-1] if is_backwards else numbers
        console.print(sparkline(ordered, console.width), markup=False, highlight=False)
    return written


def _readable(rows: Iterable[Any], numbers: list[float]) -> Iterator[dict[str, Any]]:
    """With times as people read them; values that are numbers are put into `numbers`."""
    for row in rows:
        cells = row._asdict()
        value = cells["value"]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers.append(value)
        yield readable(cells)
