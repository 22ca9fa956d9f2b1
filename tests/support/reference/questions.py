"""Random questions of every kind, and whether an answer is the reference's.

All randomness comes from a `random.Random`, so that hypothesis can choose, and shrink, what a
seeded run draws.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

from model.views import View
from tests.support.reference.tables import (
    FOREVER,
    Entry,
    Listing,
    Place,
    Table,
    assert_in_order,
    base64url,
    behind,
    json_of,
)

NDJSON = "application/x-ndjson"
BYTES = "application/octet-stream"
RESOURCE = {
    "key-value": "keys", "versioned": "keys", "window": "windows", "session": "sessions",
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
    """An answer is not what the reference says."""


@dataclass(frozen=True)
class Question:
    """What to ask, and `judge`, which raises AssertionError unless the answer (200, 404 or 410) is
    what the table says. `key`: the one that it is about, None where all partitions are needed."""

    kind: str
    target: str
    judge: Callable[[Table, Answer], None]
    key: bytes | None = None
    method: str = "GET"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[bytes, ...] = ()  # of a batch, in which each key fails for itself
    stale: str = ""  # allow, never

    def __str__(self) -> str:
        return f"{self.method} {self.target} {dict(self.headers)} {self.body!r}"


def path_of(dice: Random, view: View, key: bytes) -> tuple[str, str]:
    """The path of a key, and the query that belongs to it."""
    text = key if view.key in ("string", "bytes", "uuid", "json") else b""
    if view.key in ("int32", "int64", "float64"):
        shown = json_of(key, view.key)
        text = (shown if isinstance(shown, str) else repr(shown)).encode()
    if text in (b"", b".", b"..") or dice.random() < 0.3:
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


def _target(path: str, *queries: str) -> str:
    query = "&".join(filter(None, queries))
    return f"{path}?{query}" if query else path


def any_stale(dice: Random) -> str:
    """Whose answers will do; not given, most often."""
    return dice.choice(("", "", "", "", "allow", "never"))


def _stale(stale: str) -> str:
    return f"stale={stale}" if stale else ""


def _same(found: Any, expected: Any) -> None:
    if found != expected:
        raise Wrong(f"answered {found!r}; the reference says {expected!r}")


# One key


def _judge_point(key: bytes, kind: str) -> Callable[[Table, Answer], None]:
    def judge(table: Table, answer: Answer) -> None:
        entry = table.point(key)
        _same(answer.status, 200 if entry else 404)
        if entry is None:
            if kind != "head":
                _same(answer.json()["code"], "key-not-found")
            return
        _check_form(table.view, key, kind, entry, answer)
        partition = answer.headers.get("partition")
        if partition is not None:
            assert f"-{partition}-{entry.offset}-" in answer.headers["etag"], answer

    return judge


def _check_form(view: View, key: bytes, kind: str, entry: Entry, answer: Answer) -> None:
    if kind == "head":
        _same(answer.body, b"")
        return
    if kind == "bytes":
        _same(answer.body, b"" if view.value == "none" else entry.value)
        return
    expected = {"key": json_of(key, view.key), "value": json_of(entry.value or b"", view.value)}
    _same(answer.json(), expected)


def point(dice: Random, view: View, key: bytes) -> Question:
    """GET, HEAD, the value's bytes, or the key in the body."""
    kind = dice.choice(("get", "get", "head", "bytes", "search"))
    stale = any_stale(dice)
    more = _stale(stale)
    judge = _judge_point(key, kind)
    if kind == "search":
        path = _target(f"/views/{view.name}/search", more)
        if dice.random() < 0.5:
            headers = {"content-type": BYTES}
            return Question("search", path, judge, key, "POST", key, headers, stale=stale)
        body = b'{"query": %b}' % key_in_json(key, view).encode()
        return Question("search", path, judge, key, "POST", body, stale=stale)
    path, query = path_of(dice, view, key)
    method = "HEAD" if kind == "head" else "GET"
    accept = {"accept": BYTES} if kind == "bytes" else {}
    return Question(kind, _target(path, query, more), judge, key, method, b"", accept, stale=stale)


def as_of(dice: Random, view: View, key: bytes, moment: int) -> Question:
    def judge(table: Table, answer: Answer) -> None:
        statuses, version = table.as_of(key, moment)
        assert answer.status in statuses, (answer, statuses)
        if version is not None:
            expected = {
                "key": json_of(key, view.key),
                "value": json_of(version.value or b"", view.value),
                "valid_from": version.since,
                "valid_to": version.until,
            }
            _same(answer.json(), expected)

    path, query = path_of(dice, view, key)
    stale = any_stale(dice)
    target = _target(path, query, f"as_of={moment}", _stale(stale))
    return Question("as_of", target, judge, key, stale=stale)


def history(dice: Random, view: View, key: bytes, now: int) -> Question:
    first, last = bounds_of(dice, now)
    descending = dice.random() < 0.5

    def judge(table: Table, answer: Answer) -> None:
        _same(answer.status, 200)
        listing = behind(table.history(key, *_or_forever(first, last)), None, descending)
        document = answer.json()
        _same(document["key"], json_of(key, view.key))
        _same(document["items"], [item for _, item in listing])
        _same(document["next"], None)

    path, query = path_of(dice, view, key)
    stale = any_stale(dice)
    span = _span(first, last, "desc" if descending else "", "limit=1000", _stale(stale))
    target = _target(f"{path}/{HISTORY[view.store]}", query, *span)
    return Question("history", target, judge, key, stale=stale)


def batch(dice: Random, view: View, keys: Sequence[bytes]) -> Question:
    asked = [dice.choice(keys) for _ in range(dice.randrange(1, 12))]

    def judge(table: Table, answer: Answer) -> None:
        _same(answer.status, 200)
        items = answer.json()["items"]
        _same(len(items), len(asked))
        for key, item in zip(asked, items, strict=True):
            shown = json_of(key, view.key)
            if item["status"] == 503:
                # whoever asks knows whether the key's partition can be told
                _same(item, {"key": shown, "status": 503, "code": item["code"]})
                continue
            entry = table.point(key)
            if entry is None:
                _same(item, {"key": shown, "status": 404})
            else:
                value = json_of(entry.value or b"", view.value)
                _same(item, {"key": shown, "status": 200, "value": value})

    body = f'{{"keys": [{", ".join(key_in_json(key, view) for key in asked)}]}}'
    stale = any_stale(dice)
    path = _target(f"/views/{view.name}/batch", _stale(stale))
    asked_for = tuple(asked)
    return Question("batch", path, judge, None, "POST", body.encode(), keys=asked_for, stale=stale)


# The whole view


def count(dice: Random, view: View) -> Question:
    def judge(table: Table, answer: Answer) -> None:
        _same(answer.status, 200)
        _same(answer.json(), {"count": table.count(), "exact": True})

    stale = any_stale(dice)
    target = _target(f"/views/{view.name}/count", "exact=true", _stale(stale))
    return Question("count", target, judge, stale=stale)


def top(dice: Random, view: View) -> Question:
    by = dice.choice(BY) if view.value == "json" else None
    order, limit = dice.choice(("desc", "asc")), dice.choice((1, 2, 5, 1000))

    def judge(table: Table, answer: Answer) -> None:
        _same(answer.status, 200)
        _same(answer.json(), {"items": table.top(by, order == "desc", limit)})

    stale = any_stale(dice)
    query = (f"by={by}" if by else "", f"order={order}", f"limit={limit}", _stale(stale))
    return Question("top", _target(f"/views/{view.name}/top", *query), judge, stale=stale)


@dataclass
class Listed:
    """A page question without its cursor: which listing of the table, in which order."""

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
            queries += _span(first, last)

            def listing(table: Table) -> Listing:
                of = table.windows if resource == "windows" else table.sessions
                return of(*_or_forever(first, last), low, high)

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
            return table.history(key, *_or_forever(first, last))

        queries = [query, *_span(first, last, "desc" if descending else "")]
        return Listed(f"{path}/{HISTORY[view.store]}", queries, listing, descending, key)


def stream(dice: Random, view: View, keys: Sequence[bytes], now: int) -> Question:
    """All of it as NDJSON, or the first so many."""
    listed = Listed.whole(dice, view, keys, now)
    limit = dice.choice((None, None, 1, 3))

    def judge(table: Table, answer: Answer) -> None:
        _same(answer.status, 200)
        assert answer.body.endswith(b"\n") or not answer.body
        found = [json.loads(line) for line in answer.body.split(b"\n")[:-1]]
        expected = behind(listed.listing(table), None, listed.descending)[:limit]
        _same(found, [item for _, item in expected])

    stale = any_stale(dice)
    limited = f"limit={limit}" if limit else ""
    target = _target(listed.path, *listed.queries, limited, _stale(stale))
    return Question("stream", target, judge, headers={"accept": NDJSON}, stale=stale)


class Walk:
    """A listing page by page, with other things happening between the pages.

    Each page is what follows the last item that was seen, as things stand then; so no item comes
    twice and none is left out that was there all along, which is looked at once more in the end.
    """

    def __init__(self, listed: Listed, exact: bool = True) -> None:
        """Not `exact`: a page may be shorter than its limit, where it takes the product long."""
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
            _same(answer.status, 200)
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
            _same(items, [item for _, item in expected])
            if following is None:
                _same(len(left), len(items))
            self.seen += [place for place, _ in expected]
            self._cursor, self.ended = following, following is None
            if self.ended:
                self.check()

        stale = any_stale(dice)
        target = _target(listed.path, *listed.queries, f"limit={limit}", cursor, _stale(stale))
        return Question("page", target, judge, listed.key, stale=stale)

    def check(self) -> None:
        assert_in_order(self.seen, self.listed.descending)
        assert (self._always or set()) <= set(self.seen) <= self._ever


def bounds_of(dice: Random, now: int) -> tuple[int | None, int | None]:
    """Two times about `now`, or none; at times the wrong way round."""
    first, last = (
        None if dice.random() < 0.4 else now - dice.choice((0, 3, 10, 25, 45, 50, 55, 80))
        for _ in range(2)
    )
    if first is not None and last is not None and first > last and dice.random() < 0.8:
        first, last = last, first
    return first, last


def _or_forever(first: int | None, last: int | None) -> tuple[float, float]:
    return (-FOREVER if first is None else first), (FOREVER if last is None else last)


def _span(first: int | None, last: int | None, order: str = "", *more: str) -> list[str]:
    return [
        f"from={first}" if first is not None else "",
        f"to={last}" if last is not None else "",
        f"order={order}" if order else "",
        *more,
    ]


def any_question(dice: Random, view: View, keys: Sequence[bytes], now: int) -> Question:
    """One of the kinds that the view's store has; pages are `Walk`'s."""
    kinds: list[Callable[[], Question]] = [
        lambda: count(dice, view),
        lambda: stream(dice, view, keys, now),
    ]
    if view.store in ("key-value", "versioned"):
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
    if view.store in HISTORY:
        kinds.append(lambda: history(dice, view, dice.choice(keys), now))
    return dice.choice(kinds)()
