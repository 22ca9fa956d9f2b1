"""Random questions about one key, or a batch of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from model.views import View
from tests.support.reference.questions import (
    BYTES,
    HISTORY,
    Answer,
    Question,
    any_stale,
    assert_same,
    bounds_of,
    key_in_json,
    or_forever,
    path_of,
    span_query,
    stale_query,
    target_of,
)
from tests.support.reference.tables import (
    Entry,
    Table,
    behind,
    json_of,
)


def _judge_point(key: bytes, kind: str) -> Callable[[Table, Answer], None]:
    def judge(table: Table, answer: Answer) -> None:
        entry = table.point(key)
        is_unreadable = entry is not None and entry.unreadable is not None and kind != "bytes"
        assert_same(answer.status, 406 if is_unreadable else 200 if entry else 404)
        if entry is not None and is_unreadable:
            if kind != "head":
                _check_unreadable(entry, answer)
            return
        if entry is None:
            if kind != "head":
                assert_same(answer.json()["code"], "key-not-found")
            return
        _check_form(table.view, key, kind, entry, answer)
        partition = answer.headers.get("partition")
        if partition is not None:
            assert f"-{partition}-{entry.offset}-" in answer.headers["etag"], answer

    return judge


def _check_unreadable(entry: Entry, answer: Answer) -> None:
    problem = answer.json()
    assert_same(problem["code"], "value-unreadable")
    assert_same({name: problem[name] for name in ("partition", "offset")}, entry.unreadable)
    assert problem["reason"]


def _check_form(view: View, key: bytes, kind: str, entry: Entry, answer: Answer) -> None:
    if kind == "head":
        assert_same(answer.body, b"")
        return
    if kind == "bytes":
        assert_same(answer.body, b"" if view.value == "none" else entry.value)
        return
    assert_same(answer.json(), {"key": json_of(key, view.key), **entry.shown(view)})


def point(dice: Random, view: View, key: bytes) -> Question:
    """GET, HEAD, the value's bytes, or the key in the body."""
    kind = dice.choice(("get", "get", "head", "bytes", "search"))
    stale = any_stale(dice)
    more = stale_query(stale)
    judge = _judge_point(key, kind)
    if kind == "search":
        path = target_of(f"/views/{view.name}/search", more)
        if dice.random() < 0.5:
            headers = {"content-type": BYTES}
            return Question("search", path, judge, key, "POST", key, headers, stale=stale)
        body = b'{"query": %b}' % key_in_json(key, view).encode()
        return Question("search", path, judge, key, "POST", body, stale=stale)
    path, query = path_of(dice, view, key)
    method = "HEAD" if kind == "head" else "GET"
    accept = {"accept": BYTES} if kind == "bytes" else {}
    target = target_of(path, query, more)
    return Question(kind, target, judge, key, method, b"", accept, stale=stale)


def as_of(dice: Random, view: View, key: bytes, moment: int) -> Question:
    def judge(table: Table, answer: Answer) -> None:
        statuses, version = table.as_of(key, moment)
        assert answer.status in statuses, (answer, statuses)
        if version is not None:
            expected = {
                "key": json_of(key, view.key),
                **version.entry.shown(view),
                "valid_from": version.since,
                "valid_to": version.until,
            }
            assert_same(answer.json(), expected)

    path, query = path_of(dice, view, key)
    stale = any_stale(dice)
    target = target_of(path, query, f"as_of={moment}", stale_query(stale))
    return Question("as_of", target, judge, key, stale=stale)


def history(dice: Random, view: View, key: bytes, now: int) -> Question:
    first, last = bounds_of(dice, now)
    descending = dice.random() < 0.5

    def judge(table: Table, answer: Answer) -> None:
        assert_same(answer.status, 200)
        listing = behind(table.history(key, *or_forever(first, last)), None, descending)
        document = answer.json()
        assert_same(document["key"], json_of(key, view.key))
        assert_same(document["items"], [item for _, item in listing])
        assert_same(document["next"], None)

    path, query = path_of(dice, view, key)
    stale = any_stale(dice)
    span = span_query(first, last, "desc" if descending else "", "limit=1000", stale_query(stale))
    target = target_of(f"{path}/{HISTORY[view.store]}", query, *span)
    return Question("history", target, judge, key, stale=stale)


def batch(dice: Random, view: View, keys: Sequence[bytes]) -> Question:
    asked = [dice.choice(keys) for _ in range(dice.randrange(1, 12))]

    def judge(table: Table, answer: Answer) -> None:
        assert_same(answer.status, 200)
        items = answer.json()["items"]
        assert_same(len(items), len(asked))
        for key, item in zip(asked, items, strict=True):
            shown = json_of(key, view.key)
            if item["status"] == 503:
                # the caller checks whether the partition is available
                assert_same(item, {"key": shown, "status": 503, "code": item["code"]})
                continue
            entry = table.point(key)
            if entry is None:
                assert_same(item, {"key": shown, "status": 404})
            elif entry.unreadable is not None:
                code = {"status": 406, "code": "value-unreadable"}
                assert_same(item, {"key": shown, **code, **entry.shown(view)})
            else:
                assert_same(item, {"key": shown, "status": 200, **entry.shown(view)})

    body = f'{{"keys": [{", ".join(key_in_json(key, view) for key in asked)}]}}'
    stale = any_stale(dice)
    path = target_of(f"/views/{view.name}/batch", stale_query(stale))
    asked_for = tuple(asked)
    return Question("batch", path, judge, None, "POST", body.encode(), keys=asked_for, stale=stale)
