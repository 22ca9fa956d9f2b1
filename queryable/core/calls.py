"""Every question that a client can ask, as calls; the clients only drive them.

What holds for all: `timeout` is for the whole call with its retries, in seconds; QueryableError and
what is below it (errors.py) is raised for all that is no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from model.limits import MOST_BATCH_BYTES, MOST_JSON_PARTS, json_parts
from queryable.core.answers import (
    Answer,
    Appended,
    Change,
    Count,
    Entry,
    Ranking,
    Source,
)
from queryable.core.core import NOTHING_DONE, Core, Question, parsed, posted, understood
from queryable.core.effects import Call
from queryable.core.errors import NoAnswer, Unavailable, Unconfirmed, error_of, problem
from queryable.core.following import Changes
from queryable.core.formats import Raw
from queryable.core.pages import PAGE, CursorPages, Pager, StreamPages
from queryable.core.parameters import Order, Parameters, Span, Stale, Time
from queryable.core.parts import (
    anybody,
    can_resume,
    check_page,
    entry_of,
    fresh_parameters,
    narrowed,
    note_seen,
    prefix_text,
    same_key,
    target_of_key,
)
from queryable.core.views import View

MOST_KEYS = 1000


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
    query = fresh_parameters(core, described, stale, max_lag, max_staleness).add_time(
        "as_of", as_of
    )
    target = target_of_key(described, key, "", query)
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
    note_seen(core, described, found)
    return found


def get_many(
    core: Core,
    view: str,
    keys: Iterable[Any],
    *,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[list[Answer]]:
    """The answers to many keys, in their order, 1,000 a request; fewer where they are large.

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
    for start, end, body in batches_of(written):
        some = asked[start:end]
        question = posted(target, body, is_safe=True)
        answer = yield from core.ask(question, core.until(timeout))
        said = parsed(answer)
        headers, others = answer.headers, []
        with understood():
            for key, item in zip(some, said["items"], strict=True):
                status = item["status"]
                if status == 200:
                    answers.append(Answer(headers, key, True, from_json(item["value"])))
                    continue
                answers.append(Answer(headers, key, False))
                if status != 404:
                    others.append((len(answers) - 1, status, str(item["code"])))
        for number, status, code in others:
            key = asked[number]
            if status != 503:
                raise problem(status, code, f"Key {key!r} of view {view} is refused.")
            # of this key's partition alone: the point read waits, and says why
            answers[number] = yield from get(core, view, key, stale=stale, timeout=timeout)
    return answers


def batches_of(written: list[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Keys in JSON as bodies of batches that no instance refuses for their size; each with the
    numbers of its first key and of the first behind it."""
    for start in range(0, len(written), MOST_KEYS):
        yield from _fitting(written, start, min(start + MOST_KEYS, len(written)))


def _fitting(written: list[bytes], start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    body = b'{"keys":[%b]}' % b",".join(written[start:end])
    if end - start == 1 or (len(body) <= MOST_BATCH_BYTES and json_parts(body) <= MOST_JSON_PARTS):
        yield start, end, body
        return
    middle = (start + end) // 2
    yield from _fitting(written, start, middle)
    yield from _fitting(written, middle, end)


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
    check_page(page, limit)

    def query(last: Entry | None = None) -> Parameters:
        first, end = narrowed(order, from_, to, last)
        return (
            Parameters()
            .add_key("from", described, first)
            .add_key("to", described, end)
            .add_encoded("prefix", None if prefix is None else prefix_text(described, prefix))
            .add("order", order)
            .add("stale", stale)
        )

    read = partial(entry_of, described)
    path = f"/views/{described.name}/keys"
    if stream and can_resume(described):
        return StreamPages(
            core, path, query, read, same_key, limit=limit, timeout=timeout
        )  # fmt: skip
    return CursorPages(
        core, path, query, read, limit=limit, page=page, timeout=timeout, holders=anybody
    )


def top(
    core: Core,
    view: str,
    by: str | None = None,
    *,
    order: Order = "desc",
    limit: int = 100,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[Ranking]:
    """The entries with the greatest (or least) numbers in the field `by` of their values; without
    `by`: of values that are numbers."""
    until = core.until(timeout)
    described = yield from core.view(view, until)
    query = Parameters().add("by", by).add("order", order).add("limit", limit).add("stale", stale)
    answer = yield from core.ask(Question(query.after(f"/views/{described.name}/top")), until)
    said = parsed(answer)
    with understood():
        entries = [entry_of(described, item) for item in said["items"]]
    return Ranking(entries, Source(answer.headers))


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
