"""Every question that a client can ask, as calls; the clients only drive them.

What holds for all: `timeout` is for the whole call with its retries, in seconds; QueryableError and
what is below it (errors.py) is raised for all that is no answer.
"""

from __future__ import annotations

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
from queryable.core.core import NOTHING_DONE, Core, Question, parsed, posted, understood
from queryable.core.effects import Call
from queryable.core.errors import BadUse, NoAnswer, Unavailable, Unconfirmed, error_of, problem
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
    until = core.until(timeout)
    described = yield from core.view(view, until)
    query = _fresh(core, described, stale, max_lag, max_staleness).add_time("as_of", as_of)
    target = _of_key(described, key, "", query)
    holders = yield from core.holders(described, key, until)
    answer = yield from core.ask(Question(target, holders=holders), until)
    headers = answer.headers
    if answer.status == 404:
        error = error_of(404, headers, answer.body)
        if error.code != "key-not-found":
            raise error
        found = Answer(headers, key, False)
    else:
        said = parsed(answer)
        with understood():
            value = described.value.from_json(said["value"])
            found = Answer(headers, key, True, value, said.get("valid_from"), said.get("valid_to"))
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

    `timeout` is for each request. Within a session keys are asked for one by one: a batch cannot
    say what it must have seen, and does not tell what it has.
    """
    described = yield from core.view(view, core.until(timeout))
    asked = list(keys)
    one_by_one = core.offsets is not None or described.key.name == "avro"
    if one_by_one or any(isinstance(key, Raw) for key in asked):
        answers = []
        for key in asked:
            answers.append((yield from get(core, view, key, stale=stale, timeout=timeout)))
        return answers
    answers = []
    target = Parameters().add("stale", stale).after(f"/views/{described.name}/batch")
    written = [described.key.written(key) for key in asked]
    from_json = described.value.from_json
    for start in range(0, len(asked), MOST_KEYS):
        some = asked[start : start + MOST_KEYS]
        body = b'{"keys":[%b]}' % b",".join(written[start : start + MOST_KEYS])
        question = posted(target, body, is_safe=True)
        answer = yield from core.ask(question, core.until(timeout))
        said = parsed(answer)
        with understood():
            items = [
                (key, item["status"], item.get("code"), item.get("value"))
                for key, item in zip(some, said["items"], strict=True)
            ]
        for key, status, code, value in items:
            if status == 200:
                with understood():
                    answers.append(Answer(answer.headers, key, True, from_json(value)))
            elif status == 404:
                answers.append(Answer(answer.headers, key, False))
            elif status == 503:  # of this key's partition alone: the point read waits, and says why
                answers.append((yield from get(core, view, key, stale=stale, timeout=timeout)))
            else:
                raise problem(status, str(code), f"Key {key!r} of view {view} is refused.")
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

    Page by page; or with `stream` as one stream, which costs the instances less (keys other than
    string, bytes and whole numbers come by pages all the same). `limit`: of all pages together.
    `timeout`: for each page, or each silence.
    """
    described = yield from core.view(view, core.until(timeout))
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
    path = f"/views/{described.name}/keys"
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
    described = yield from core.view(view, core.until(timeout))
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
    described = yield from core.view(view, core.until(timeout))
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
    described = yield from core.view(view, core.until(timeout))
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
    until = core.until(timeout)
    described = yield from core.view(view, until)
    query = Parameters().add("by", by).add("order", order).add("limit", limit).add("stale", stale)
    answer = yield from core.ask(Question(query.after(f"/views/{described.name}/top")), until)
    said = parsed(answer)
    with understood():
        return [_entry(described, item) for item in said["items"]]


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
    target = query.after(f"/views/{quote(view, safe='')}/count")
    answer = yield from core.ask(Question(target), core.until(timeout))
    said = parsed(answer)
    with understood():
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
    described = yield from core.view(view, core.until(patience))
    described.key.segment(key)
    return Changes(core, described, key, after, patience)


DELETE: Any = type("Delete", (), {"__repr__": lambda _: "DELETE"})()
"""In place of a value: the key is deleted."""


def append(
    core: Core, view: str, key: Any, value: Any = DELETE, *, timeout: float | None = None
) -> Call[Appended]:
    """Appends a record to the view's topic (which must say `append = "on"`); without a value the
    key is deleted. It is sent again only where it cannot have been written; Unconfirmed: it may be
    there all the same."""
    until = core.until(timeout)
    described = yield from core.view(view, until)
    body = b'{"key":%b' % described.key.written(key)
    if value is not DELETE:
        body += b',"value":%b' % described.value.written(value)
    question = posted(f"/topics/{described.topic}/records", body + b"}", is_safe=False)
    try:
        said = parsed((yield from core.ask(question, until)))
    except Unavailable as e:
        if _may_be_written(e):
            raise _unconfirmed(e) from None
        raise
    with understood():
        written = Appended(said["partition"], said["offset"])
    if (offsets := core.offsets) is not None:
        offsets.wrote(described.topic, written.partition, written.offset)
    return written


def _may_be_written(error: Unavailable) -> bool:
    if isinstance(error, NoAnswer):
        return error.may_have_arrived
    return error.code not in NOTHING_DONE


def _unconfirmed(error: Unavailable) -> Unconfirmed:
    found = Unconfirmed(error.code, f"The record may be there all the same: {error.detail}")
    found.status, found.retry_after, found.more = error.status, error.retry_after, error.more
    return found


def views(core: Core) -> Call[list[View]]:
    """All views."""
    said = yield from core.document("/views")
    with understood():
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


def _anybody(_: float) -> Call[tuple[str, ...]]:
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
    return described.key.parameter(prefix)


def _can_resume(described: View) -> bool:
    """Whether the very key that has come can be named as a bound: of documents every byte counts,
    NaN has many forms, and the digits of a UUID may be capitals."""
    return described.key.name in ("string", "bytes", "int32", "int64")


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
            holders=lambda until: core.holders(described, key, until),
            note=partial(_note, core, described),
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
