"""Every question that a client can ask, as calls; the clients only drive them.

What holds for all: `timeout` is for the whole call with its retries, in seconds; QueryableError and
what is below it (errors.py) is raised for all that is no answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from queryable.core.answers import (
    Answer,
    Appended,
    Change,
    Count,
    Entry,
    Session,
    Source,
    Version,
    Window,
)
from queryable.core.core import Core, Question, posted
from queryable.core.effects import Call
from queryable.core.errors import BadRequest, BadUse, error_of
from queryable.core.following import Changes
from queryable.core.formats import Raw
from queryable.core.pages import PAGE, CursorPages, Pager, StreamPages
from queryable.core.parameters import Order, Parameters, Span, Stale, Time
from queryable.core.views import View

MOST_KEYS = 1000
ALL_KEYS: Any = type("AllKeys", (), {"__repr__": lambda _: "ALL_KEYS"})()
"""In place of a key: the windows or sessions of all of them."""


def get(
    core: Core,
    view: str,
    key: Any,
    *,
    as_of: Time | None = None,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Answer]:
    """What is there under a key; `answer.found` is False where nothing is.

    `as_of`: what was valid then, of a versioned view. `max_lag` (records), `max_staleness`: how far
    behind the answer may be. `stale="allow"`: from a partition that is still being read in, too;
    `"never"`: from the active alone.
    """
    described = yield from core.view(view)
    query = _fresh(core, described, stale, max_lag, max_staleness).add_time("as_of", as_of)
    target = _of_key(described, key, "", query)
    holders = yield from core.holders(described, key)
    answer = yield from core.ask(Question(target, holders=holders), timeout)
    headers, body = answer.headers, answer.body
    if answer.status == 404:
        error = error_of(404, headers, body)
        if error.code != "key-not-found":
            raise error
        found = Answer(headers, key, False)
    elif answer.status == 200:
        said = json.loads(body)
        value = described.value.from_json(said["value"])
        found = Answer(headers, key, True, value, said.get("valid_from"), said.get("valid_to"))
    else:
        raise error_of(answer.status, headers, body)
    _note(core, described, found)
    return found


def get_many(
    core: Core,
    view: str,
    keys: Iterable[Any],
    *,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[list[Answer]]:
    """The answers to many keys, in their order, 1,000 a request.

    `timeout` is for each request. Within a session that has seen something of the view's topic,
    keys are asked for one by one: a batch cannot say what it must have seen.
    """
    described = yield from core.view(view)
    asked = list(keys)
    offsets = core.offsets
    one_by_one = offsets is not None and offsets.of(described.topic) is not None
    if one_by_one or described.key.name == "avro" or any(isinstance(key, Raw) for key in asked):
        answers = []
        for key in asked:
            answers.append((yield from get(core, view, key, stale=stale, timeout=timeout)))
        return answers
    answers = []
    target = Parameters().add("stale", stale).after(f"/views/{view}/batch")
    to_json, from_json = described.key.to_json, described.value.from_json
    for start in range(0, len(asked), MOST_KEYS):
        some = asked[start : start + MOST_KEYS]
        for key in some:
            described.key.check(key)
        body = b'{"keys":[%b]}' % b",".join([to_json(key) for key in some])
        answer = yield from core.ask(posted(target, body, is_safe=True), timeout)
        if answer.status != 200:
            raise error_of(answer.status, answer.headers, answer.body)
        for key, item in zip(some, json.loads(answer.body)["items"], strict=True):
            status = item["status"]
            if status == 200:
                answers.append(Answer(answer.headers, key, True, from_json(item["value"])))
            elif status == 404:
                answers.append(Answer(answer.headers, key, False))
            elif status == 503:  # of this key's partition alone: the point read waits, and says why
                answers.append((yield from get(core, view, key, stale=stale, timeout=timeout)))
            else:
                raise BadRequest(item["code"], f"Key {key!r} of view {view} is refused.")
    return answers


def scan(
    core: Core,
    view: str,
    *,
    from_: Any = None,
    to: Any = None,
    prefix: str | bytes | None = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE,
    stream: bool = False,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Pager[Entry]]:
    """The entries from one key to another, both within, in the order of the keys.

    Page by page; or with `stream` as one stream, which costs the instances less (views whose keys
    are JSON or Avro come by pages all the same). `limit`: of all pages together. `timeout`: for
    each page, or each silence.
    """
    described = yield from core.view(view)
    _check_page(page, limit)

    def query(last: Entry | None = None) -> Parameters:
        first, end = _narrowed(order, from_, to, last)
        return (
            Parameters()
            .add_key("from", described, first)
            .add_key("to", described, end)
            .add_encoded("prefix", None if prefix is None else _prefix(described, prefix))
            .add("order", order)
            .add("stale", stale)
        )

    read = partial(_entry, described)
    path = f"/views/{view}/keys"
    if stream and _can_resume(described):
        return StreamPages(
            core, path, query, read, _same_key, limit=limit, timeout=timeout
        )  # fmt: skip
    return CursorPages(
        core, path, query, read, limit=limit, page=page, timeout=timeout, holders=_anybody
    )


def windows(
    core: Core,
    view: str,
    key: Any = ALL_KEYS,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    key_from: Any = None,
    key_to: Any = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE,
    stream: bool = False,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Pager[Window]]:
    """The windows of a key, or of all keys within `key_from` and `key_to`, that start within
    `from_` and `to`; in the order of key, start, sequence."""
    described = yield from core.view(view)
    pager: Pager[Window] = _timed(
        core, described, "windows", partial(_window, described), _window_place, key, (from_, to),
        (key_from, key_to), order, limit, page, stream, (stale, max_lag, max_staleness), timeout,
    )  # fmt: skip
    return pager


def sessions(
    core: Core,
    view: str,
    key: Any = ALL_KEYS,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    key_from: Any = None,
    key_to: Any = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE,
    stream: bool = False,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Pager[Session]]:
    """The sessions of a key, or of all keys within `key_from` and `key_to`, that overlap
    `from_`–`to`; in the order of key, end, start."""
    described = yield from core.view(view)
    pager: Pager[Session] = _timed(
        core, described, "sessions", partial(_session, described), _session_place, key, (from_, to),
        (key_from, key_to), order, limit, page, stream, (stale, max_lag, max_staleness), timeout,
    )  # fmt: skip
    return pager


def versions(
    core: Core,
    view: str,
    key: Any,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Pager[Version]]:
    """The versions of a key that were valid at any moment within `from_` and `to`."""
    described = yield from core.view(view)
    pager: Pager[Version] = _timed(
        core, described, "versions", partial(_version, described), _version_place, key, (from_, to),
        (None, None), order, limit, page, False, (stale, max_lag, max_staleness), timeout,
    )  # fmt: skip
    return pager


def top(
    core: Core,
    view: str,
    by: str | None = None,
    *,
    order: Order = "desc",
    limit: int = 100,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Sequence[Entry]]:
    """The entries with the greatest (or least) numbers in the field `by` of their values; without
    `by`: of values that are numbers."""
    described = yield from core.view(view)
    query = Parameters().add("by", by).add("order", order).add("limit", limit).add("stale", stale)
    answer = yield from core.ask(Question(query.after(f"/views/{view}/top")), timeout)
    if answer.status != 200:
        raise error_of(answer.status, answer.headers, answer.body)
    return [_entry(described, item) for item in json.loads(answer.body)["items"]]


def count(
    core: Core,
    view: str,
    *,
    exact: bool = False,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Count]:
    """How many entries there are: RocksDB's estimate at once, or `exact` by looking at all."""
    query = Parameters().add("exact", "true" if exact else None).add("stale", stale)
    answer = yield from core.ask(Question(query.after(f"/views/{view}/count")), timeout)
    if answer.status != 200:
        raise error_of(answer.status, answer.headers, answer.body)
    said = json.loads(answer.body)
    return Count(said["count"], said["exact"], Source(answer.headers))


def changes(
    core: Core,
    view: str,
    key: Any,
    *,
    after: tuple[int, int] | None = None,
    patience: float = 60.0,
) -> Call[Pager[Change]]:
    """What is there under a key, then each change as it can be read; endless.

    `after`: partition and offset of the last change that was seen; older ones are left out.
    `patience`: seconds for which nobody may be able to tell the changes before that is an error.
    """
    described = yield from core.view(view)
    described.key.segment(key)
    return Changes(core, described, key, after, patience)


DELETE: Any = type("Delete", (), {"__repr__": lambda _: "DELETE"})()
"""In place of a value: the key is deleted."""


def append(
    core: Core, view: str, key: Any, value: Any = DELETE, *, timeout: float | None = None
) -> Call[Appended]:
    """Appends a record to the view's topic (which must say `append = "on"`); without a value the
    key is deleted. Unconfirmed: it may be there all the same."""
    described = yield from core.view(view)
    described.key.check(key)
    body = b'{"key":%b' % described.key.to_json(key)
    if value is not DELETE:
        described.value.check(value)
        body += b',"value":%b' % described.value.to_json(value)
    question = posted(f"/topics/{described.topic}/records", body + b"}", is_safe=False)
    answer = yield from core.ask(question, timeout)
    if answer.status != 200:
        raise error_of(answer.status, answer.headers, answer.body)
    said = json.loads(answer.body)
    written = Appended(said["partition"], said["offset"])
    if (offsets := core.offsets) is not None:
        offsets.wrote(described.topic, written.partition, written.offset)
    return written


def views(core: Core) -> Call[list[View]]:
    """All views."""
    said = yield from core.document("/views")
    return [View.of(each) for each in said["views"]]


def view(core: Core, name: str) -> Call[View]:
    """One view; NotFound."""
    return (yield from core.view(name))


def topology(core: Core) -> Call[Mapping[str, Any]]:
    """Who holds what: the document of `GET /processors`."""
    return (yield from core.topology()).document


# --- parts of questions


def _fresh(
    core: Core,
    described: View,
    stale: Stale | None,
    max_lag: int | None,
    max_staleness: Span | None,
) -> Parameters:
    offsets = core.offsets
    return (
        Parameters()
        .add("min_offset", None if offsets is None else offsets.of(described.topic))
        .add("stale", stale)
        .add("max_lag", max_lag)
        .add_span("max_staleness", max_staleness)
    )


def _note(core: Core, described: View, source: Source) -> None:
    if (offsets := core.offsets) is not None:
        offsets.read(described.topic, source.partition, source.position)


def _of_key(described: View, key: Any, below: str, query: Parameters) -> str:
    segment, is_base64 = described.key.segment(key)
    if is_base64:
        query.add("encoding", "base64url")
    return query.after(f"/views/{described.name}/keys/{segment}{below}")


def _anybody() -> Call[tuple[str, ...]]:
    return ()
    yield


def _check_page(page: int, limit: int | None) -> None:
    if not 1 <= page <= PAGE:
        raise BadUse(f"page={page} is not within 1 to {PAGE}.")
    if limit is not None and limit < 0:
        raise BadUse(f"limit={limit} is less than 0.")


def _prefix(described: View, prefix: str | bytes) -> str:
    if described.key.name not in ("string", "bytes"):
        raise BadUse(f"Keys of {described.key.name} have no prefix.")
    described.key.check(prefix)
    return quote(described.key.to_text(prefix), safe="")


def _can_resume(described: View) -> bool:
    """Whether a key that has come can be named as a bound: of documents every byte counts."""
    return described.key.name not in ("json", "avro")


def _narrowed(order: Order, first: Any, end: Any, last: Any) -> tuple[Any, Any]:
    if last is None:
        return first, end
    return (last.key, end) if order == "asc" else (first, last.key)


def _same_key(item: Entry, last: Entry) -> bool:
    return bool(item.key == last.key)


def _entry(described: View, item: Mapping[str, Any]) -> Entry:
    return Entry(described.key.from_json(item["key"]), described.value.from_json(item["value"]))


def _window(described: View, item: Mapping[str, Any], key: Any = ALL_KEYS) -> Window:
    return Window(
        described.key.from_json(item["key"]) if key is ALL_KEYS else key,
        item["start"],
        item["end"],
        item["sequence"],
        described.value.from_json(item["value"]),
    )


def _window_place(item: Window) -> tuple[int, int]:
    return item.start, item.sequence


def _session(described: View, item: Mapping[str, Any], key: Any = ALL_KEYS) -> Session:
    return Session(
        described.key.from_json(item["key"]) if key is ALL_KEYS else key,
        item["start"],
        item["end"],
        described.value.from_json(item["value"]),
    )


def _session_place(item: Session) -> tuple[int, int]:
    return item.end, item.start


def _version(described: View, item: Mapping[str, Any], key: Any = ALL_KEYS) -> Version:
    return Version(
        key, item["valid_from"], item["valid_to"], described.value.from_json(item["value"])
    )


def _version_place(item: Version) -> tuple[int, int]:
    return item.valid_from, 0


def _timed(
    core: Core,
    described: View,
    kind: str,
    read: Any,
    place: Any,
    key: Any,
    times: tuple[Time | None, Time | None],
    keys: tuple[Any, Any],
    order: Order,
    limit: int | None,
    page: int,
    stream: bool,
    fresh: tuple[Stale | None, int | None, Span | None],
    timeout: float | None,
) -> Any:
    """The pager of what has times: of one key, or of all."""
    _check_page(page, limit)
    if key is not ALL_KEYS:
        if keys != (None, None):
            raise BadUse("key_from and key_to are for the entries of all keys.")

        def of_key() -> Parameters:
            query = _fresh(core, described, *fresh)
            if described.key.segment(key)[1]:
                query.add("encoding", "base64url")
            return query.add_time("from", times[0]).add_time("to", times[1]).add("order", order)

        segment, _ = described.key.segment(key)
        return CursorPages(
            core, f"/views/{described.name}/keys/{segment}/{kind}", of_key,
            partial(read, key=key), limit=limit, page=page, timeout=timeout,
            holders=lambda: core.holders(described, key), note=partial(_note, core, described),
        )  # fmt: skip
    stale, max_lag, max_staleness = fresh
    if max_lag is not None or max_staleness is not None:
        raise BadUse("max_lag and max_staleness are for the entries of one key.")

    def of_all(last: Any = None) -> Parameters:
        first, end = _narrowed(order, *keys, last)
        return (
            Parameters()
            .add_time("from", times[0])
            .add_time("to", times[1])
            .add_key("key_from", described, first)
            .add_key("key_to", described, end)
            .add("order", order)
            .add("stale", stale)
        )

    def has_come(item: Any, last: Any) -> bool:
        if item.key != last.key:
            return False
        before = place(item) <= place(last) if order == "asc" else place(item) >= place(last)
        return bool(before)

    path = f"/views/{described.name}/{kind}"
    if stream and _can_resume(described):
        return StreamPages(core, path, of_all, read, has_come, limit=limit, timeout=timeout)
    return CursorPages(
        core, path, of_all, read, limit=limit, page=page, timeout=timeout, holders=_anybody
    )
