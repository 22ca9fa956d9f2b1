"""Requests about many keys: pages, streams, batches, counts, the greatest ones and aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.pipelining.example import (
    EXTRA,
    HALF,
    HISTORY,
    KEYS,
    OF_VALUES,
    ORDERS,
    SESSIONS,
    SORTED,
    WINDOWS,
    entries,
    start,
    value,
)
from tests.fuzz.pipelining.kinds.histories import LINES, is_lines
from tests.fuzz.pipelining.kinds.values import read
from tests.fuzz.pipelining.requests import (
    Answer,
    Check,
    Draw,
    Kind,
    Request,
    is_document,
    is_problem,
    json_body,
)

COUNTED = (*OF_VALUES, WINDOWS, SESSIONS)
_PAGE = 4  # keys


@dataclass
class WholeViews:
    """`_cursors`: of earlier pages, by view and place of their first key in SORTED."""

    _cursors: dict[tuple[str, int], str] = field(default_factory=dict)

    def kinds(self) -> list[Kind]:
        return [
            Kind(6, _range), Kind(4, self._first_page), Kind(4, self._next_page), Kind(6, _lines),
            Kind(6, _batch), Kind(3, _chunked_batch), Kind(4, _count),
            Kind(4, _filtered), Kind(3, _by_value), Kind(3, _top), Kind(3, _aggregate),
            Kind(3, _aggregate_of_key), Kind(3, _statement),
            Kind(2, _wrong_store, True),
        ]  # fmt: skip

    def _first_page(self, draw: Draw) -> Request:
        view, at = draw.random.choice(OF_VALUES), _place(draw)
        expected = _entries(view, SORTED[at : at + _PAGE])

        def check(answer: Answer) -> bool:
            found = answer.document
            is_right = (answer.status, found["items"]) == (200, expected) and found["next"]
            if is_right:
                self._cursors[view, at] = found["next"]
            return bool(is_right)

        return Request("GET", _page_path(view, at), check, read(view))

    def _next_page(self, draw: Draw) -> Request:
        if not self._cursors:
            return self._first_page(draw)
        known = [*self._cursors.items()]
        (view, at), cursor = known[draw.number % len(known)]
        expected = _entries(view, SORTED[at + _PAGE : at + 2 * _PAGE])

        def check(answer: Answer) -> bool:
            return (answer.status, answer.document["items"]) == (200, expected)

        return Request("GET", f"{_page_path(view, at)}&cursor={cursor}", check, read(view))


def _place(draw: Draw) -> int:
    """In SORTED, with two pages behind it."""
    return draw.number % (KEYS - 2 * _PAGE)


def _page_path(view: str, at: int) -> str:
    return f"/views/{view}/keys?from={SORTED[at]}&limit={_PAGE}"


def _entries(view: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(view, int(key[1:]))} for key in keys]


def _bounded(draw: Draw, view: str) -> tuple[str, list[dict[str, Any]]]:
    """The path for some entries of a view in their order, and these."""
    at = _place(draw)
    keys = SORTED[at : at + draw.random.randint(1, 2 * _PAGE)]
    path = f"/views/{view}/keys?from={keys[0]}&to={keys[-1]}"
    if draw.random.random() < 0.5:
        return f"{path}&order=desc", _entries(view, keys[::-1])
    return path, _entries(view, keys)


def _range(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    path, items = _bounded(draw, view)
    return Request("GET", path, is_document({"items": items, "next": None}), read(view))


def _lines(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    path, items = _bounded(draw, view)
    if draw.random.random() < 0.1:
        path = f"/views/{view}/keys?prefix=k"
        items = _entries(view, SORTED)
    return Request("GET", path, is_lines(items), read(view), LINES)


def _are_items(view: str, numbers: Sequence[int]) -> Check:
    """Of a batch; keys from KEYS on are missing."""
    items = [
        {"key": f"k{n}", "status": 200, "value": value(view, n)}
        if n < KEYS
        else {"key": f"k{n}", "status": 404}
        for n in numbers
    ]
    return is_document({"items": items})


def _batch(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    more = (draw.random.randrange(2 * KEYS) for _ in range(draw.random.randint(0, 8)))
    numbers = [draw.number, *more]
    return Request(
        "POST", f"/views/{view}/batch", _are_items(view, numbers), read(view),
        **json_body({"keys": [f"k{n}" for n in numbers]}),
    )  # fmt: skip


def _chunked_batch(draw: Draw) -> Request:
    body = json_body({"keys": [f"k{draw.number}"]})
    check = _are_items(ORDERS, [draw.number])
    path = f"/views/{ORDERS}/batch"
    return Request("POST", path, check, read(ORDERS), **body, is_chunked=True)


def _filtered(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    at = _place(draw)
    keys = [SORTED[at], *SORTED[at + 2 : at + 2 + draw.random.randint(0, 3)]]
    where = " or ".join(f"key = '{key}'" for key in keys)
    expected = {"items": _entries(view, keys), "next": None}
    return Request(
        "POST", f"/views/{view}/query", is_document(expected), read(view),
        **json_body({"where": where}),
    )  # fmt: skip


def _by_value(draw: Draw) -> Request:
    expected = {"items": _entries(ORDERS, [f"k{draw.number}"]), "next": None}
    path = f"/views/{ORDERS}/by/id/{draw.number}"
    return Request("GET", path, is_document(expected), read(ORDERS))


def _count(draw: Draw) -> Request:
    view = draw.random.choice(COUNTED)
    expected = {"count": entries(view), "exact": True}
    target = draw.random.choice(["count", "count?exact=true"])
    return Request("GET", f"/views/{view}/{target}", is_document(expected), read(view))


def _top(draw: Draw) -> Request:
    view, limit = draw.random.choice(OF_VALUES), draw.number % 20 + 1
    order = draw.random.choice(("asc", "desc"))
    numbers = range(KEYS)[:: 1 if order == "asc" else -1][:limit]
    expected = {"items": [{"key": f"k{n}", "value": value(view, n)} for n in numbers]}
    path = f"/views/{view}/top?by=id&limit={limit}&order={order}"
    return Request("GET", path, is_document(expected), read(view))


def _group(name: Any, of: int, numbers: Sequence[int]) -> dict[str, Any]:
    """Of an aggregate: so many entries, and the numbers that they have."""
    count, total = len(numbers), sum(numbers)
    return {
        "group": name, "entries": of, "count": count, "sum": total,
        "min": min(numbers), "max": max(numbers), "avg": total / count,
    }  # fmt: skip


def _aggregate(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    group = _group(view, KEYS + EXTRA[view], range(KEYS))
    path = f"/views/{view}/aggregate?by=of&value=id"
    return Request("GET", path, is_document({"items": [group]}), read(view))


def _aggregate_of_key(draw: Draw) -> Request:
    """The windows or sessions of one key: no others are at that time."""
    view = draw.random.choice((WINDOWS, SESSIONS))
    span = f"from={start(draw.number, 0)}&to={start(draw.number, HISTORY - 1) + HALF}"
    group = _group(draw.number, HISTORY, range(HISTORY))
    path = f"/views/{view}/aggregate?by=id&value=at&{span}"
    return Request("GET", path, is_document({"items": [group]}), read(view))


def _statement(draw: Draw) -> Request:
    view = draw.random.choice(OF_VALUES)
    query = f"select id, key as k from {view} where key = ? limit 3"
    expected = {"items": [{"id": draw.number, "k": f"k{draw.number}"}], "next": None}
    return Request(
        "POST", "/sql", is_document(expected), read(view),
        **json_body({"query": query, "parameters": [f"k{draw.number}"]}),
    )  # fmt: skip


def _wrong_store(draw: Draw) -> Request:
    view = draw.random.choice((WINDOWS, SESSIONS))
    check = is_problem(400, "wrong-store", f"View {view} ")
    return Request("GET", f"/views/{view}/keys?from=k{draw.number}", check, read(view))
