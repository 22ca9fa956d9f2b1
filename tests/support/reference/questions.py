"""Random questions of every kind, and checks of their answers against the reference.

All randomness comes from a `random.Random`, so that hypothesis can choose and shrink it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

from model.views import View
from tests.support.reference.tables import (
    FOREVER,
    Table,
    base64url,
    json_of,
)

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
BYTES = "application/octet-stream"
RESOURCE = {
    "key-value": "keys", "global": "keys", "versioned": "keys",
    "window": "windows", "session": "sessions",
}  # fmt: skip
HISTORY = {"window": "windows", "session": "sessions", "versioned": "versions"}
BY = ("n", "x.y", "t", "none")


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Wrong(AssertionError):
    """An answer differs from that of the reference."""


@dataclass(frozen=True)
class Question:
    """A request, and `judge`, which raises AssertionError unless the answer (200, 404 or 410) is
    that of the table. `key`: the key of the request; None if it needs all partitions."""

    kind: str
    target: str
    judge: Callable[[Table, Answer], None]
    key: bytes | None = None
    method: str = "GET"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[bytes, ...] = ()  # of a batch, in which each key can fail separately
    stale: str = ""  # allow, never

    def __str__(self) -> str:
        return f"{self.method} {self.target} {dict(self.headers)} {self.body!r}"


def path_of(dice: Random, view: View, key: bytes) -> tuple[str, str]:
    """The path of a key, and the query string that belongs to it."""
    text = key if view.key in ("string", "bytes", "uuid", "json") else b""
    if view.key in ("int32", "int64", "float64"):
        shown = json_of(key, view.key)
        text = (shown if isinstance(shown, str) else repr(shown)).encode()
    if text in (b"", b".", b"..") or b"\0" in text or dice.random() < 0.3:
        return f"/views/{view.name}/keys/{base64url(key)}", "encoding=base64url"
    return f"/views/{view.name}/keys/{quote(text, safe='')}", ""


def text_of(key: bytes, view: View) -> str:
    """A key as a bound in a query string."""
    if view.key in ("int32", "int64", "float64"):
        shown = json_of(key, view.key)
        return quote(shown if isinstance(shown, str) else repr(shown))
    return quote(key, safe="")


def key_in_json(key: bytes, view: View) -> str:
    return key.decode() if view.key == "json" else json.dumps(json_of(key, view.key))


def target_of(path: str, *queries: str) -> str:
    query = "&".join(filter(None, queries))
    return f"{path}?{query}" if query else path


def any_stale(dice: Random) -> str:
    """A value of the parameter `stale`; mostly none."""
    return dice.choice(("", "", "", "", "allow", "never"))


def stale_query(stale: str) -> str:
    return f"stale={stale}" if stale else ""


def without_reasons(document: Any) -> Any:
    """A document without the reasons why values cannot be read; each must be there."""
    if isinstance(document, list):
        return [without_reasons(each) for each in document]
    if not isinstance(document, dict):
        return document
    found = {name: without_reasons(each) for name, each in document.items()}
    if isinstance(place := found.get("unreadable"), dict):
        assert place.pop("reason")
    return found


def assert_same(found: Any, expected: Any) -> None:
    found = without_reasons(found)
    if found != expected:
        raise Wrong(f"the answer is {found!r}; the reference is {expected!r}")


# One key


# The whole view


def bounds_of(dice: Random, now: int) -> tuple[int | None, int | None]:
    """Two times around `now`, or none; sometimes in the wrong order."""
    first, last = (
        None if dice.random() < 0.4 else now - dice.choice((0, 3, 10, 25, 45, 50, 55, 80))
        for _ in range(2)
    )
    if first is not None and last is not None and first > last and dice.random() < 0.8:
        first, last = last, first
    return first, last


def or_forever(first: int | None, last: int | None) -> tuple[float, float]:
    return (-FOREVER if first is None else first), (FOREVER if last is None else last)


def span_query(first: int | None, last: int | None, order: str = "", *more: str) -> list[str]:
    return [
        f"from={first}" if first is not None else "",
        f"to={last}" if last is not None else "",
        f"order={order}" if order else "",
        *more,
    ]
