"""Questions with many answers, a page at a time: by cursors, or as one stream that is taken up
again where it broke."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from queryable.core.answers import Source
from queryable.core.core import Core, Question, parsed, understood
from queryable.core.documents import document_of
from queryable.core.effects import Call, Close, NoConnection, Read
from queryable.core.errors import NoAnswer, ServerError
from queryable.core.lines import LineSplitter
from queryable.core.parameters import Parameters

T = TypeVar("T")

PAGE = 1000
_NDJSON = {"accept": "application/x-ndjson"}


class Pager(Protocol[T]):
    """Gives page after page; None after the last. `source` is that of the latest page."""

    source: Source | None

    def next(self) -> Call[list[T] | None]: ...

    def close(self) -> Call[None]:
        """To be called if there is no wish for the rest."""


Query = Callable[[], Parameters]
"""All parameters but limit and cursor, anew."""


class CursorPages(Generic[T]):
    """By the cursors that pages give: nothing comes twice, whoever answers the next one."""

    def __init__(
        self,
        core: Core,
        path: str,
        query: Query,
        read: Callable[[Mapping[str, Any]], T],
        *,
        limit: int | None,
        page: int,
        timeout: float | None,
        holders: Callable[[float], Call[tuple[str, ...]]],
        note: Callable[[Source], None] | None = None,
    ) -> None:
        """`read`: an item. `limit`: of all pages together. `note` is told of each page."""
        self.source: Source | None = None
        self._core = core
        self._path = path
        self._query = query
        self._read = read
        self._left = limit
        self._page = page
        self._timeout = timeout
        self._holders = holders
        self._note = note
        self._cursor: str | None = None
        self._is_over = limit == 0

    def next(self) -> Call[list[T] | None]:
        if self._is_over:
            return None
        size = self._page if self._left is None else min(self._page, self._left)
        query = self._query().add("limit", size).add("cursor", self._cursor)
        until = self._core.until(self._timeout)
        holders = yield from self._holders(until)
        question = Question(query.after(self._path), holders=holders)
        answer = yield from self._core.ask(question, until)
        said = parsed(answer)
        with understood():
            items = [self._read(item) for item in said["items"]]
            self._cursor = said["next"]
        self.source = Source(answer.headers)
        if self._note is not None:
            self._note(self.source)
        if self._left is not None:
            self._left -= len(items)
        self._is_over = self._cursor is None or self._left == 0
        return items

    def close(self) -> Call[None]:
        self._is_over = True
        return
        yield


class StreamPages(Generic[T]):
    """As NDJSON. A stream that breaks off is opened again at the last key; what has come is left
    out."""

    def __init__(
        self,
        core: Core,
        path: str,
        query: Callable[[T | None], Parameters],
        read: Callable[[Mapping[str, Any]], T],
        has_come: Callable[[T, T], bool],
        *,
        limit: int | None,
        timeout: float | None,
    ) -> None:
        """`query(last)`: from the item `last` on, it itself included. `has_come(item, last)`."""
        self.source: Source | None = None
        self._core = core
        self._path = path
        self._query = query
        self._read = read
        self._has_come = has_come
        self._left = limit
        self._timeout = timeout
        self._stream: Any = None
        self._lines = LineSplitter()
        self._last: T | None = None
        self._is_behind = False
        self._is_over = limit == 0

    def next(self) -> Call[list[T] | None]:
        while not self._is_over:
            if self._stream is None:
                yield from self._open()
            try:
                chunk = yield Read(self._stream)
            except NoConnection as e:
                yield from self._drop()
                # of a stream that gives nothing new each time, the budget is spent in the end
                if not self._core.budget.spend():
                    raise NoAnswer(str(e)) from None
                continue
            if not chunk:
                yield from self._drop()
                if not self._lines.is_between:
                    raise ServerError("not-understood", "the stream ends in the middle of a line")
                self._is_over = True
                break
            if items := self._new(self._lines.feed(chunk)):
                return items
        return None

    def _open(self) -> Call[None]:
        query = self._query(self._last)
        if self._last is None:  # later ones begin with what has come, which does not count
            query.add("limit", self._left)
        question = Question(query.after(self._path), headers=_NDJSON)
        stream = yield from self._core.open(question, self._timeout)
        self._stream = stream
        self._lines = LineSplitter()
        self._is_behind = self._last is not None
        self.source = Source(stream.headers)

    def _new(self, lines: list[bytes]) -> list[T]:
        with understood():
            items = [self._read(document_of(line)) for line in lines]
        if self._is_behind and self._last is not None:
            come = 0
            while come < len(items) and self._has_come(items[come], self._last):
                come += 1
            self._is_behind = come == len(items)
            items = items[come:]
        if self._left is not None:
            items = items[: self._left]
            self._left -= len(items)
            if self._left == 0:
                self._is_over = True
        if items:
            self._last = items[-1]
        return items

    def _drop(self) -> Call[None]:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            yield Close(stream)

    def close(self) -> Call[None]:
        self._is_over = True
        yield from self._drop()
