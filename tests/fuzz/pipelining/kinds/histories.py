"""Requests for the windows, sessions or versions of a key, and of all keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fuzz.pipelining.example import (
    HALF,
    HISTORY,
    ITEM_OF,
    OF_HISTORY,
    ORDERS,
    SESSIONS,
    VERSIONS,
    WINDOWS,
    home,
    start,
)
from tests.fuzz.pipelining.kinds.values import path_of, read
from tests.fuzz.pipelining.requests import (
    Answer,
    Check,
    Draw,
    Kind,
    Request,
    is_document,
    is_problem,
)

RESOURCE = {WINDOWS: "windows", SESSIONS: "sessions", VERSIONS: "versions"}
"""The path below a key, by view."""


def kinds() -> list[Kind]:
    return [
        Kind(8, _all_of_key), Kind(6, _span_of_key), Kind(4, _page_of_key), Kind(3, _head),
        Kind(3, _nothing), Kind(1, _wrong_store, True), Kind(5, _of_all_keys), Kind(5, _lines),
    ]  # fmt: skip


def _path(view: str, key: str) -> str:
    return f"{path_of(view, key)}/{RESOURCE[view]}"


def _items(view: str, number: int, places: Sequence[int]) -> list[dict[str, Any]]:
    return [ITEM_OF[view](number, at) for at in places]


def _is_history(view: str, number: int, places: Sequence[int]) -> Check:
    """A whole one, without a next page."""
    key, items = f"k{number}", _items(view, number, places)
    return is_document({"key": key, "items": items, "next": None})


def _all_of_key(draw: Draw) -> Request:
    view = draw.random.choice(OF_HISTORY)
    order = draw.random.choice(("asc", "desc"))
    places = range(HISTORY)[:: 1 if order == "asc" else -1]
    path = f"{_path(view, f'k{draw.number}')}?order={order}"
    return Request("GET", path, _is_history(view, draw.number, places), read(view))


def _span_of_key(draw: Draw) -> Request:
    view = draw.random.choice(OF_HISTORY)
    first = draw.random.randrange(HISTORY)
    last = draw.random.randrange(first, HISTORY)
    span = f"from={start(draw.number, first)}&to={start(draw.number, last)}"
    path = f"{_path(view, f'k{draw.number}')}?{span}"
    return Request("GET", path, _is_history(view, draw.number, range(first, last + 1)), read(view))


def _page_of_key(draw: Draw) -> Request:
    """A page that others follow."""
    view = draw.random.choice(OF_HISTORY)
    limit = draw.random.randrange(1, HISTORY)
    items = _items(view, draw.number, range(limit))

    def check(answer: Answer) -> bool:
        found = answer.document
        page = found["key"], found["items"], found["next"] is not None
        return (answer.status, *page) == (200, f"k{draw.number}", items, True)

    path = f"{_path(view, f'k{draw.number}')}?limit={limit}"
    return Request("GET", path, check, read(view))


def _head(draw: Draw) -> Request:
    view, key = draw.random.choice(OF_HISTORY), f"k{draw.number}"
    partition = str(home(key.encode()))

    def check(answer: Answer) -> bool:
        has_length = int(answer.headers["content-length"]) > 0
        return (answer.status, answer.headers["partition"]) == (200, partition) and has_length

    return Request("HEAD", _path(view, key), check, read(view))


def _nothing(draw: Draw) -> Request:
    view, key = draw.random.choice(OF_HISTORY), f"missing{draw.number}"
    check = is_document({"key": key, "items": [], "next": None})
    return Request("GET", _path(view, key), check, read(view))


def _wrong_store(draw: Draw) -> Request:
    """A key without a history."""
    rest = draw.random.choice([*RESOURCE.values()])
    path = f"{path_of(ORDERS, f'k{draw.number}')}/{rest}"
    return Request("GET", path, is_problem(404, "no-such-resource", rest), read(ORDERS))


def _range(draw: Draw, view: str) -> tuple[str, list[dict[str, Any]]]:
    """The path for the entries of one key in the scan of a view, and these."""
    key = f"k{draw.number}"
    items = [{"key": key, **item} for item in _items(view, draw.number, range(HISTORY))]
    path = f"/views/{view}/{RESOURCE[view]}?key_from={key}&key_to={key}"
    if draw.random.random() < 0.5:
        last = start(draw.number, HISTORY - 1) + HALF
        path += f"&from={start(draw.number, 0)}&to={last}"
    return path, items


def _of_all_keys(draw: Draw) -> Request:
    view = draw.random.choice((WINDOWS, SESSIONS))
    path, items = _range(draw, view)
    return Request("GET", path, is_document({"items": items, "next": None}), read(view))


def _lines(draw: Draw) -> Request:
    view = draw.random.choice((WINDOWS, SESSIONS))
    path, items = _range(draw, view)
    return Request("GET", path, is_lines(items), read(view), LINES)


LINES = {"Accept": "application/x-ndjson"}


def is_lines(items: Sequence[Any]) -> Check:
    """A stream of these."""

    def check(answer: Answer) -> bool:
        found = [answer._replace(body=line).document for line in answer.body.splitlines()]
        is_stream = answer.headers["content-type"] == LINES["Accept"]
        return answer.status == 200 and is_stream and found == items

    return check
