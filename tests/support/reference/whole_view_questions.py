"""Random questions about whole views: listings, streams, counts, the greatest."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.ipc

from model.times import EPOCH
from model.views import View
from tests.support.reference import aggregates
from tests.support.reference.key_questions import as_of, batch, history, point
from tests.support.reference.questions import (
    ARROW,
    BY,
    HISTORY,
    NDJSON,
    RESOURCE,
    Answer,
    Question,
    any_stale,
    assert_same,
    bounds_of,
    or_forever,
    path_of,
    span_query,
    stale_query,
    target_of,
    text_of,
)
from tests.support.reference.tables import (
    Item,
    Listing,
    Place,
    Table,
    assert_in_order,
    base64url,
    behind,
)


def count(dice: Random, view: View) -> Question:
    def judge(table: Table, answer: Answer) -> None:
        assert_same(answer.status, 200)
        unreadable = table.unreadable(aggregates.entries(table))
        assert_same(answer.json(), {"count": table.count(), "exact": True, **unreadable})

    stale = any_stale(dice)
    exact = dice.choice(("exact=true", "exact=false", ""))  # the views are small
    target = target_of(f"/views/{view.name}/count", exact, stale_query(stale))
    return Question("count", target, judge, stale=stale)


def top(dice: Random, view: View) -> Question:
    by = dice.choice(BY) if view.value == "json" else None
    order, limit = dice.choice(("desc", "asc")), dice.choice((1, 2, 5, 1000))

    def judge(table: Table, answer: Answer) -> None:
        listed = table.keys()
        if aggregates.has_only_texts((item for _, item in listed), by):
            assert_same(answer.status, 400)
            return
        assert_same(answer.status, 200)
        items = table.top(by, order == "desc", limit)
        assert_same(answer.json(), {"items": items, **table.unreadable(table.keys())})

    stale = any_stale(dice)
    query = (f"by={by}" if by else "", f"order={order}", f"limit={limit}", stale_query(stale))
    return Question("top", target_of(f"/views/{view.name}/top", *query), judge, stale=stale)


def top_keys(dice: Random, view: View, now: int) -> Question:
    """The top of windows or sessions."""
    order_by = dice.choice(("", "sum", "min", "max", "avg", "count", "entries"))
    by = dice.choice(BY) if view.value == "json" else None
    if order_by == "entries" and dice.random() < 0.5:
        by = None
    first, last = bounds_of(dice, now)
    order, limit = dice.choice(("desc", "asc")), dice.choice((1, 2, 5, 1000))

    def judge(table: Table, answer: Answer) -> None:
        span = or_forever(first, last)
        listed = aggregates.entries(table, *span)
        if order_by != "entries" and aggregates.has_only_texts((item for _, item in listed), by):
            assert_same(answer.status, 400)
            return
        assert_same(answer.status, 200)
        items = aggregates.top_keys(table, by, order_by or "sum", order == "desc", limit, *span)
        assert_same(json.loads(answer.body), {"items": items, **table.unreadable(listed)})

    stale = any_stale(dice)
    query = (
        f"by={by}" if by else "",
        f"order_by={order_by}" if order_by else "",
        *span_query(first, last, order),
        f"limit={limit}",
        stale_query(stale),
    )
    return Question("top", target_of(f"/views/{view.name}/top", *query), judge, stale=stale)


def aggregate(dice: Random, view: View, now: int) -> Question:
    by, value = (dice.choice((None, *BY)) if view.value == "json" else None for _ in range(2))
    is_timed = view.store in ("window", "session")
    first, last = bounds_of(dice, now) if is_timed else (None, None)
    with_numbers = value is not None or view.value in ("int32", "int64", "float64")
    order_by = dice.choice(("sum", "min", "max", "avg", "count", "entries"))
    order_by = order_by if with_numbers else "entries"
    descending, limit = dice.random() < 0.5, dice.choice((None, 1, 2, 1000))
    is_ordered = dice.random() < 0.5

    def judge(table: Table, answer: Answer) -> None:
        listed = aggregates.entries(table, *or_forever(first, last))
        if aggregates.has_only_texts((item for _, item in listed), value):
            assert_same(answer.status, 400)
            return
        assert_same(answer.status, 200)
        span = or_forever(first, last)
        unreadable = table.unreadable(aggregates.entries(table, *span))
        groups = aggregates.aggregate(table, by, value, *span)
        if is_ordered:
            groups = aggregates.first_groups(groups, order_by, descending, limit)
        assert_same(json.loads(answer.body), {"items": groups, **unreadable})

    stale = any_stale(dice)
    query = (
        f"by={by}" if by else "",
        f"value={value}" if value else "",
        *span_query(first, last),
        *([f"order_by={order_by}", f"order={'desc' if descending else 'asc'}"] * is_ordered),
        f"limit={limit}" if is_ordered and limit else "",
        stale_query(stale),
    )
    target = target_of(f"/views/{view.name}/aggregate", *query)
    return Question("aggregate", target, judge, stale=stale)


@dataclass
class Listed:
    """A query in pages, without its cursor: the listing of the table and its order."""

    path: str
    queries: list[str]
    listing: Callable[[Table], Listing]
    descending: bool
    key: bytes | None = None

    @staticmethod
    def whole(dice: Random, view: View, keys: Sequence[bytes], now: int) -> Listed:
        resource = RESOURCE[view.store]
        descending = dice.random() < 0.5
        low, high = (dice.choice((None, None, dice.choice(keys))) for _ in range(2))
        queries = ["order=desc"] if descending else []
        if resource == "keys":
            names = ("from", "to")
            prefix = b""
            if view.key in ("string", "bytes") and dice.random() < 0.3:
                texts = "a", "é", "a\0"
                prefix = (
                    dice.choice(keys)[:1] if view.key == "bytes" else dice.choice(texts).encode()
                )
                queries.append(f"prefix={quote(prefix, safe='')}")

            def listing(table: Table) -> Listing:
                return table.keys(low, high, prefix)
        else:
            names = ("key_from", "key_to")
            first, last = bounds_of(dice, now)
            queries += span_query(first, last)

            def listing(table: Table) -> Listing:
                of = table.windows if resource == "windows" else table.sessions
                return of(*or_forever(first, last), low, high)

        for name, key in zip(names, (low, high), strict=True):
            if key is not None:
                queries.append(f"{name}={text_of(key, view)}")
        return Listed(f"/views/{view.name}/{resource}", queries, listing, descending)

    @staticmethod
    def of_key(dice: Random, view: View, key: bytes, now: int) -> Listed:
        first, last = bounds_of(dice, now)
        descending = dice.random() < 0.5
        path, query = path_of(dice, view, key)

        def listing(table: Table) -> Listing:
            return table.history(key, *or_forever(first, last))

        queries = [query, *span_query(first, last, "desc" if descending else "")]
        return Listed(f"{path}/{HISTORY[view.store]}", queries, listing, descending, key)


def stream(dice: Random, view: View, keys: Sequence[bytes], now: int) -> Question:
    """All items as NDJSON, or the first ones."""
    listed = Listed.whole(dice, view, keys, now)
    limit = dice.choice((None, None, 1, 3))

    def judge(table: Table, answer: Answer) -> None:
        assert_same(answer.status, 200)
        assert answer.body.endswith(b"\n") or not answer.body
        found = [json.loads(line) for line in answer.body.split(b"\n")[:-1]]
        expected = behind(listed.listing(table), None, listed.descending)[:limit]
        assert_same(found, [item for _, item in expected])

    stale = any_stale(dice)
    limited = f"limit={limit}" if limit else ""
    target = target_of(listed.path, *listed.queries, limited, stale_query(stale))
    return Question("stream", target, judge, headers={"accept": NDJSON}, stale=stale)


def columns(dice: Random, view: View, keys: Sequence[bytes], now: int) -> Question:
    """All items as an Arrow stream, or some of them, in any order."""
    listed = Listed.whole(dice, view, keys, now)
    limit = dice.choice((None, None, 1, 3))

    def judge(table: Table, answer: Answer) -> None:
        assert_same(answer.status, 200)
        found = Counter(map(_comparable, items_of_columns(answer.body, view)))
        listing = [item for _, item in listed.listing(table)]
        expected = Counter(_comparable({**item, **_REPORT} if "unreadable" in item else item)
                           for item in listing)  # fmt: skip
        if limit is None:
            assert_same(found, expected)
        assert_same(found - expected, Counter())
        assert_same(found.total(), min(len(listing), limit or len(listing)))

    stale = any_stale(dice)
    queries = [query for query in listed.queries if query != "order=desc"]
    limited = f"limit={limit}" if limit else ""
    target = target_of(listed.path, *queries, limited, stale_query(stale))
    return Question("columns", target, judge, headers={"accept": ARROW}, stale=stale)


_REPORT = {"unreadable": True}


def _comparable(item: Item) -> str:
    return json.dumps(item, sort_keys=True)


def items_of_columns(body: bytes, view: View) -> list[Item]:
    """The rows of a complete stream as the items of a page; what cannot be read is `_REPORT`."""
    reader = pa.ipc.open_stream(body)
    items: list[Item] = []
    while True:
        batch, metadata = reader.read_next_batch_with_custom_metadata()
        if metadata is not None:
            assert_same(json.loads(metadata[b"queryable.end"])["rows"], len(items))
            return items
        for row in batch.to_pylist():
            reason = row.pop("unreadable")
            value = _json_of(row.pop("value", None), view.value)
            last = {"value": value} if reason is None else _REPORT
            times = {name: _ms_of(part) for name, part in row.items() if name != "key"}
            items.append({"key": _json_of(row["key"], view.key), **times, **last})


def _ms_of(part: datetime | int | None) -> int | None:
    return (part - EPOCH) // timedelta(milliseconds=1) if isinstance(part, datetime) else part


def _json_of(part: Any, format_name: str) -> Any:
    """A key or value in JSON."""
    if isinstance(part, bytes):
        return base64url(part)
    if isinstance(part, float) and not math.isfinite(part):
        return "NaN" if math.isnan(part) else "Infinity" if part > 0 else "-Infinity"
    is_document = isinstance(part, str) and format_name in ("json", "avro", "protobuf")
    return json.loads(part) if is_document else part


class Walk:
    """A listing page by page, while other events happen between the pages.

    Each page follows the last item that was received, in the state at that moment. So no item is
    repeated, and no item is missing that existed all the time; `check` verifies this at the end.
    """

    def __init__(self, listed: Listed, exact: bool = True) -> None:
        """`exact=False`: a page may be shorter than its limit if the product needs too long."""
        self.listed = listed
        self.seen: list[Place] = []
        self.ended = False
        self._exact = exact
        self._cursor: str | None = None
        self._always: set[Place] | None = None
        self._ever: set[Place] = set()

    def next_page(self, dice: Random) -> Question:
        limit = dice.choice((1, 1, 2, 3, 1000))
        listed = self.listed
        cursor = "" if self._cursor is None else f"cursor={self._cursor}"

        def judge(table: Table, answer: Answer) -> None:
            assert_same(answer.status, 200)
            listing = listed.listing(table)
            there = {place for place, _ in listing}
            self._always = there if self._always is None else self._always & there
            self._ever |= there
            document = answer.json()
            items, following = document["items"], document["next"]
            last = self.seen[-1] if self.seen else None
            left = behind(listing, last, listed.descending)
            expected = left[:limit]
            if following is not None and not self._exact:
                expected = expected[: len(items)]
            assert_same(items, [item for _, item in expected])
            if following is None:
                assert_same(len(left), len(items))
            self.seen += [place for place, _ in expected]
            self._cursor, self.ended = following, following is None
            if self.ended:
                self.check()

        stale = any_stale(dice)
        queries = (*listed.queries, f"limit={limit}", cursor, stale_query(stale))
        target = target_of(listed.path, *queries)
        return Question("page", target, judge, listed.key, stale=stale)

    def check(self) -> None:
        assert_in_order(self.seen, self.listed.descending)
        assert (self._always or set()) <= set(self.seen) <= self._ever


def any_question(dice: Random, view: View, keys: Sequence[bytes], now: int) -> Question:
    """A query of a kind that the view's store supports; for pages see `Walk`."""
    kinds: list[Callable[[], Question]] = [
        lambda: count(dice, view),
        lambda: aggregate(dice, view, now),
        lambda: stream(dice, view, keys, now),
        lambda: columns(dice, view, keys, now),
    ]
    if view.store in ("key-value", "global", "versioned"):
        kinds += [
            lambda: point(dice, view, dice.choice(keys)),
            lambda: point(dice, view, dice.choice(keys)),
            lambda: batch(dice, view, keys),
        ]
        if view.value in ("json", "int64", "float64"):
            kinds.append(lambda: top(dice, view))
    if view.store == "versioned":
        moment = now - dice.choice((0, 3, 10, 25, 45, 50, 55, 80))
        kinds.append(lambda: as_of(dice, view, dice.choice(keys), moment))
    if view.store in ("window", "session"):
        kinds.append(lambda: top_keys(dice, view, now))
    if view.store in HISTORY:
        kinds.append(lambda: history(dice, view, dice.choice(keys), now))
    return dice.choice(kinds)()
