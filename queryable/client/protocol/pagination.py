"""Reads results page by page: by cursor, or as one stream that resumes where it broke."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from model.formats.json_decoder import decode_json
from queryable.client.protocol.answers import Source
from queryable.client.protocol.context import MAX_DESCRIBED, ClientContext
from queryable.client.protocol.descriptions import changing
from queryable.client.protocol.errors import BadUse, NoAnswer, ServerError
from queryable.client.protocol.parameters import Order, Parameters
from queryable.client.protocol.requests import ApiRequest, read_request
from queryable.client.protocol.responses import decoding, json_of
from queryable.client.protocol.stream_decoders import LineDecoder
from queryable.client.protocol.transport import (
    Call,
    CloseStream,
    ReadChunk,
    Sleep,
    TransportError,
)
from queryable.client.protocol.views import View

T = TypeVar("T")

PAGE_SIZE = 1000
"""The default, and the maximum that the API allows."""

_REOPEN_DELAY_S = 0.1  # s
_NDJSON = {"accept": "application/x-ndjson"}


class Pager(Protocol[T]):
    """Returns page after page, and None after the last one. `source`: the source of the latest
    page."""

    source: Source | None

    def next(self) -> Call[list[T] | None]: ...

    def close(self) -> Call[None]:
        """Must be called if the caller stops before the end."""


def check_page_size(page: int, limit: int | None) -> None:
    """Raises BadUse if a number is out of range."""
    if not 1 <= page <= PAGE_SIZE:
        raise BadUse(f"page={page} is out of range: 1 to {PAGE_SIZE}.")
    if limit is not None and limit < 0:
        raise BadUse(f"limit={limit} is negative.")


class CursorPager(Generic[T]):
    """Follows the cursors of the pages. No item is repeated, even if another instance answers."""

    def __init__(
        self,
        context: ClientContext,
        path: Callable[[View], str],
        query: Callable[[View], Parameters],
        view: View,
        decode: Callable[[View, Mapping[str, Any]], T],
        *,
        limit: int | None,
        page: int,
        timeout: float | None,
        instances: Callable[[float], Call[tuple[str, ...]]] | None = None,
        on_page: Callable[[View, Source], None] | None = None,
    ) -> None:
        """`path` and `query` make the request for a description of the view: `query` returns new
        parameters, without limit and cursor. `decode` decodes an item of the view that answered.
        `limit` is for all pages together. `instances(deadline)` returns the base URLs to ask
        first."""
        self.source: Source | None = None
        self._context = context
        self._path = path
        self._query = query
        self._view = view
        self._decode = decode
        self._remaining = limit
        self._page = page
        self._timeout = timeout
        self._instances = instances
        self._on_page = on_page
        self._cursor: str | None = None
        self._is_done = limit == 0

    def next(self) -> Call[list[T] | None]:
        if self._is_done:
            return None
        size = self._page if self._remaining is None else min(self._page, self._remaining)
        deadline = self._context.deadline(self._timeout)
        instances: tuple[str, ...] = ()
        if self._instances is not None:
            instances = yield from self._instances(deadline)

        def request_of(view: View) -> ApiRequest:
            query = self._query(view).add("limit", size).add("cursor", self._cursor)
            return read_request(query.append_to(self._path(view)), instances=instances)

        # only the first page may be requested again: a later page would not fit the keys before it
        attempts = MAX_DESCRIBED if self._cursor is None else 1
        response, view = yield from self._context.read(self._view, request_of, deadline, attempts)
        document = json_of(response)
        self._view = replace(view, name=self._view.name)
        with decoding():
            items = [self._decode(view, item) for item in document["items"]]
            self._cursor = document["next"]
        self.source = Source(response.headers)
        if self._on_page is not None:
            self._on_page(view, self.source)
        if self._remaining is not None:
            self._remaining -= len(items)
        self._is_done = self._cursor is None or self._remaining == 0
        return items

    def close(self) -> Call[None]:
        self._is_done = True
        return
        yield


def can_resume(view: View) -> bool:
    """Whether a stream of the view can resume at the last key received.

    The key must have exactly one textual form. JSON and Avro documents and NaN have several, and
    UUIDs may be in capitals.
    """
    return view.key.python.has_one_text


def remaining_range(order: Order, first: Any, last: Any, received: Any) -> tuple[Any, Any]:
    """The keys that remain after the row `received` (None: no row yet), its own key included."""
    if received is None:
        return first, last
    return (received.key, last) if order == "asc" else (first, received.key)


def _versioned_path(path: str, version: str) -> str:
    """The path with the version of the view: a stream resumes in the version in which it began."""
    before, views, rest = path.partition("/views/")
    name, slash, resource = rest.partition("/")
    return path if "@" in name else f"{before}{views}{name}@{version}{slash}{resource}"


class StreamPager(Generic[T]):
    """Reads an NDJSON stream. If it breaks, it is opened again at the last key received, and items
    that were already received are skipped."""

    def __init__(
        self,
        context: ClientContext,
        path: str,
        view: View,
        query: Callable[[View, T | None], Parameters],
        decode: Callable[[View, Mapping[str, Any]], T],
        was_received: Callable[[T, T], bool],
        *,
        limit: int | None,
        timeout: float | None,
    ) -> None:
        """`query(view, last)`: parameters for all items from `last` on, `last` included.
        `decode(view, item)` decodes an item of the view that answered.
        `was_received(item, last)`: whether `item` came before or with `last`."""
        self.source: Source | None = None
        self._context = context
        self._path = path
        self._view = view
        self._query = query
        self._decode = decode
        self._was_received = was_received
        self._remaining = limit
        self._timeout = timeout
        self._stream: Any = None
        self._lines = LineDecoder()
        self._last_item: T | None = None
        self._is_skipping = False
        self._closings = context.closings
        self._has_progress = False  # the stream that was opened last had new items
        self._is_done = limit == 0

    def next(self) -> Call[list[T] | None]:
        while not self._is_done:
            self._context.require_open(self._closings)
            if self._stream is None:
                yield from self._open()
            try:
                chunk = yield ReadChunk(self._stream)
            except TransportError as e:
                yield from self._close_stream()
                # if the stream breaks each time before a new item, the retry budget ends it
                may_resume = self._has_progress or self._context.budget.spend()
                if not can_resume(self._view) or not may_resume:
                    raise NoAnswer(str(e)) from None
                yield Sleep(_REOPEN_DELAY_S * random.uniform(0.75, 1.25))
                continue
            self._context.require_open(self._closings)  # closing the client ends the stream
            if not chunk:
                yield from self._close_stream()
                if not self._lines.is_at_line_start:
                    raise ServerError("not-understood", "The stream ends in the middle of a line.")
                self._is_done = True
                break
            if items := self._new_items(self._lines.feed(chunk)):
                return items
        return None

    def _open(self) -> Call[None]:
        stream, self._view = yield from self._open_described()
        self._stream = stream
        self._lines = LineDecoder()
        self._is_skipping = self._last_item is not None
        self._has_progress = False
        self.source = Source(stream.headers)
        if (version := stream.headers.get("view-version")) is not None:
            self._path = _versioned_path(self._path, version)

    def _open_described(self) -> Call[tuple[Any, View]]:
        """Opens a stream; returns it and the view that answers. If that view has keys of another
        format, the bounds mean other keys there. Then the stream is opened again, unless rows were
        already received."""
        view = self._view
        for _ in range(MAX_DESCRIBED):
            target = self._target(view)
            request = read_request(target, headers=_NDJSON)
            opening = self._context.open_described(request, view, self._timeout)
            stream, answering = yield from opening
            is_same = False
            try:
                is_same = self._target(answering) == target
            finally:
                if not is_same:
                    yield CloseStream(stream)
            if is_same:
                return stream, answering
            if self._last_item is not None:
                break
            view = answering
        raise changing(self._view.name)

    def _target(self, view: View) -> str:
        query = self._query(view, self._last_item)
        if self._last_item is None:  # a resumed stream begins with items that were already received
            query.add("limit", self._remaining)
        return query.append_to(self._path)

    def _new_items(self, lines: list[bytes]) -> list[T]:
        with decoding():
            items = [self._decode(self._view, decode_json(line)) for line in lines]
        if self._is_skipping and self._last_item is not None:
            skipped = 0
            while skipped < len(items) and self._was_received(items[skipped], self._last_item):
                skipped += 1
            self._is_skipping = skipped == len(items)
            items = items[skipped:]
        if self._remaining is not None:
            items = items[: self._remaining]
            self._remaining -= len(items)
            if self._remaining == 0:
                self._is_done = True
        if items:
            self._last_item = items[-1]
            self._has_progress = True
        return items

    def _close_stream(self) -> Call[None]:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            yield CloseStream(stream)

    def close(self) -> Call[None]:
        self._is_done = True
        yield from self._close_stream()
