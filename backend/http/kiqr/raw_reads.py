"""Reads of record bytes, called by threads. Each read runs in the event loop.

Reads of a key are those of the key routes. Lists and counts ask all instances.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import TimeoutError as TimedOut
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

import orjson

from backend.http.representation import RECORD_VALUES
from backend.http.routes.keys import KeyRoutes
from backend.instance.context import QueryContext
from backend.queries.history import MAX_LIMIT, Span
from backend.queries.point import count_refusal
from backend.queries.scans.freshness import Freshness
from backend.queries.scans.scatter_gather import (
    MAX_ENTRIES,
    MAX_ENTRIES_BYTES,
    ScatterGather,
    StopWalk,
)
from backend.queries.whole_view.count import COUNT
from backend.wire.answer import Answer, Header, code_of
from backend.wire.scan import Query, ScanResponse
from backend.wire.scan_codec import BARE, RAW
from model.formats.base64url import from_base64url
from model.problems import BadRequest, Problem, Unavailable
from model.records import ENTRY_HEAD_SIZE, is_unreadable, unplace
from model.views import View

MAX_COUNTED = 100_000  # entries; if there are more, the count is an estimate
COUNTING_SECONDS = 5.0  # as long as KIQR waits for its instances
_TIMEOUT = 20.0  # s for one read
_PAGE = 2_000

_T = TypeVar("_T")


class RawEntry(NamedTuple):
    """Record bytes of a key, and the record's value."""

    key: bytes
    value: bytes


class TimedEntry(NamedTuple):
    """A window or a session: its times in ms (`end` may be unknown), and the record's value."""

    start: int
    end: int | None
    value: bytes


class Count(NamedTuple):
    """A number of entries; an estimate unless `is_exact`."""

    number: int
    is_exact: bool


class _ErrorAnswer(Problem):
    """An error answer of this or another instance, passed on to the client."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(code_of(answer), "")
        self.status = answer.status
        self._answer = answer

    def body(self) -> bytes:
        return self._answer.body

    def headers(self) -> list[Header]:
        return self._answer.headers


class _Running(NamedTuple):
    """The parts of the instance that reads need. They exist while the event loop runs."""

    keys: KeyRoutes
    scatter_gather: ScatterGather
    loop: asyncio.AbstractEventLoop


class RawReads:
    """Blocking reads, for all threads except the event loop's. They raise Unavailable before
    `start`."""

    def __init__(self, context: QueryContext) -> None:
        self._context = context
        self._running: _Running | None = None

    def start(self, keys: KeyRoutes, scatter_gather: ScatterGather) -> None:
        """Called in the event loop."""
        self._running = _Running(keys, scatter_gather, asyncio.get_running_loop())

    def value(self, view: View, key: bytes) -> bytes:
        """The value of a key. Raises Problem, such as NotFound if the key is missing."""
        return self._run(partial(self._value, view, key))

    def history(
        self, view: View, key: bytes, first: int | None = None, last: int | None = None
    ) -> list[TimedEntry]:
        """The windows or sessions of a key within first..last (ms), in order. Raises Problem."""
        return self._run(partial(self._history, view, key, first, last))

    def scan(self, view: View, first: bytes | None, last: bytes | None) -> list[RawEntry]:
        """All entries with first <= key <= last in the order of keys. Raises BadRequest,
        Unavailable."""
        low, high = view.layout.key_range(first, last)
        return self._run(partial(self._scan, view, Query(low, high)))

    def count(self, view: View) -> Count:
        """The number of entries in the view; an estimate if there are more than MAX_COUNTED, or if
        they cannot be counted within COUNTING_SECONDS. Raises Unavailable."""
        return self._run(partial(self._count, view))

    def _run(self, read: Callable[[_Running], Coroutine[Any, Any, _T]]) -> _T:
        if (running := self._running) is None:
            raise Unavailable("no-topology", "This instance is being started.")
        future = asyncio.run_coroutine_threadsafe(read(running), running.loop)
        try:
            return future.result(_TIMEOUT)
        except TimedOut:
            future.cancel()
            raise Unavailable("took-too-long", f"It took more than {_TIMEOUT:.0f} s.") from None

    @contextmanager
    def _counted(self, view: View) -> Iterator[None]:
        """Counts a refusal, as the router does for requests to the key routes."""
        try:
            yield
        except _ErrorAnswer:
            raise  # counted where it was answered
        except Problem as problem:
            count_refusal(self._context.telemetry.counts[view.name], problem)
            raise

    async def _value(self, view: View, key: bytes, running: _Running) -> bytes:
        with self._counted(view):
            return _checked(await running.keys.record_value(view, key)).body

    async def _history(
        self, view: View, key: bytes, first: int | None, last: int | None, running: _Running
    ) -> list[TimedEntry]:
        entries_so_far: list[TimedEntry] = []
        size = 0
        cursor: str | None = None
        with self._counted(view):
            while True:
                span = Span(first, last, limit=MAX_LIMIT, cursor=cursor)
                page = _checked(await running.keys.record_history(view, key, span))
                entries, cursor = _parse_page(page)
                entries_so_far += entries
                size += sum([len(entry.value) for entry in entries])
                _check_size(view, len(entries_so_far), size)
                if cursor is None:
                    return entries_so_far

    async def _scan(self, view: View, query: Query, running: _Running) -> list[RawEntry]:
        row_key = view.kind.row_key
        entries: list[RawEntry] = []
        size = 0
        steps = running.scatter_gather.rows(view, query, _PAGE, None, Freshness(), RAW)
        async with aclosing(steps):
            async for rows, _ in steps:
                size += sum([len(key) + len(value) for key, _, value in rows])
                _check_size(view, len(entries) + len(rows), size)
                entries += [
                    RawEntry(row_key(view, key, with_times=False).key, _record_value(head, value))
                    for key, head, value in rows
                ]
        return entries

    async def _count(self, view: View, running: _Running) -> Count:
        """Counts the entries before it uses RocksDB's estimate, which includes overwritten entries
        and can be many times too high even for a small view."""
        if not self._context.store_partitions.may_be_in_several(view):
            freshness = Freshness()
            count = await _count_of_partitions(view, freshness, running.scatter_gather)
            if not freshness.mispartitioned:
                return count
        return await _count_of_keys(view, running.scatter_gather)


async def _count_of_partitions(
    view: View, freshness: Freshness, scatter_gather: ScatterGather
) -> Count:
    """The sum of all partitions; stops if a key may be in several."""
    counted = 0

    async def take(response: ScanResponse) -> None:
        nonlocal counted
        freshness.note(response)
        counted += response.counted + response.unreadable
        if freshness.mispartitioned or counted > MAX_COUNTED:
            raise StopWalk

    ask = scatter_gather.request(view, COUNT.name, Query())
    try:
        await scatter_gather.walk(ask, COUNTING_SECONDS, take)
    except StopWalk:
        pass
    except Unavailable as e:
        if e.code != "took-too-long":
            raise
    else:
        return Count(counted, is_exact=True)
    stored = 0
    if not freshness.mispartitioned:
        stored = await scatter_gather.estimate(view, Query(), Freshness())
    return Count(max(stored, counted), is_exact=False)


async def _count_of_keys(view: View, scatter_gather: ScatterGather) -> Count:
    """Counts each key once, also if it is in several partitions. If there are too many, the
    estimate is RocksDB's, times the share of keys among the entries that were read."""
    deadline = time.monotonic() + COUNTING_SECONDS
    freshness = Freshness()
    counted = 0
    steps = scatter_gather.rows(view, Query(), _PAGE, None, freshness, BARE)
    async with aclosing(steps):
        async for rows, reached in steps:
            counted += len(rows)
            if reached is None:
                return Count(counted, is_exact=True)
            if freshness.entries > MAX_COUNTED or time.monotonic() > deadline:
                break
    share = min(counted / max(freshness.entries, 1), 1.0)
    estimate = await scatter_gather.estimate(view, Query(), Freshness())
    return Count(max(round(share * estimate), counted), is_exact=False)


def _checked(answer: Answer) -> Answer:
    if answer.status != 200:
        raise _ErrorAnswer(answer)
    return answer


def _parse_page(answer: Answer) -> tuple[list[TimedEntry], str | None]:
    """The entries of a page in the form RECORD_VALUES, and the cursor of the next page.

    Raises Unavailable for another form: an older instance sends JSON values.
    """
    try:
        if (b"content-type", RECORD_VALUES) not in answer.headers:
            raise ValueError("not in the form RECORD_VALUES")
        page = orjson.loads(answer.body)
        entries = [
            TimedEntry(item["start"], item["end"], from_base64url(item["value"].encode()))
            for item in page["items"]
        ]
        return entries, page["next"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unavailable(
            "owner-unreachable",
            "The instance that has the key does not send record bytes. Upgrade all instances.",
        ) from None


def _record_value(head: bytes, item: bytes) -> bytes:
    """The record bytes of a row, also unreadable ones: the client's serde decides whether it can
    read them."""
    return unplace(head + item)[1][ENTRY_HEAD_SIZE:] if is_unreadable(head) else item


def _check_size(view: View, entries: int, size: int) -> None:
    """Raises BadRequest if an answer has too many entries or bytes."""
    if entries > MAX_ENTRIES or size > MAX_ENTRIES_BYTES:
        raise BadRequest(
            "too-many-entries",
            f"The answer has more than {MAX_ENTRIES} entries or {MAX_ENTRIES_BYTES >> 20} MiB. "
            f"Narrow the bounds, or stream GET /views/{view.name}/{view.kind.resource} with "
            f"Accept: application/x-ndjson.",
        )
