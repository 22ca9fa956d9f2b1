"""Pages and streams of a view, in the order of its keys, from all partitions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from backend.queries.history import MAX_PAGE_BYTES
from backend.queries.scans.scatter_gather import Freshness, ScatterGather
from backend.wire.cursor import encode_cursor
from backend.wire.scan import Query, Row
from backend.wire.scan_codec import ROWS
from model.views import View

PAGE_BUDGET = 1.0  # s, after which a page ends with the rows it has
STREAM_ROWS = 2_000  # asked of each owner at a time


@dataclass(frozen=True)
class Page:
    """A query with where it begins and how many rows it may have (None: all).

    `resource` is KEYS, WINDOWS or SESSIONS; `after` is a stored key.
    """

    resource: str
    query: Query
    limit: int | None
    after: bytes | None


@dataclass
class PageResult:
    """JSON items, and the cursor of the next page (None: this is the last one)."""

    items: list[bytes]
    next: str | None
    freshness: Freshness


async def read_page(scatter_gather: ScatterGather, view: View, page: Page) -> PageResult:
    """One page; Unavailable."""
    assert page.limit is not None
    freshness = Freshness()
    rows, reached = await first_rows(
        scatter_gather, view, page.query, page.limit, freshness, page.after
    )
    cursor = None
    if reached is not None:
        cursor = encode_cursor(page.query.question(view, page.resource), reached)
    return PageResult([item for _, _, item in rows], cursor, freshness)


async def stream_page(
    scatter_gather: ScatterGather, view: View, page: Page, freshness: Freshness
) -> AsyncGenerator[tuple[list[bytes], bool]]:
    """The JSON items, some at a time, each time with whether these are the last.

    Unavailable at any step. The first step yields only after all partitions were asked.
    """
    size = min(page.limit or STREAM_ROWS, STREAM_ROWS)
    left = page.limit
    steps = scatter_gather.rows(view, page.query, size, page.after, freshness)
    async with aclosing(steps):
        async for rows, reached in steps:
            if left is not None:
                rows = rows[:left]
                left -= len(rows)
            last = reached is None or left == 0
            yield [item for _, _, item in rows], last
            if last:
                return


async def first_rows(
    scatter_gather: ScatterGather,
    view: View,
    query: Query,
    limit: int,
    freshness: Freshness,
    after: bytes | None = None,
    what: str = ROWS,
) -> tuple[list[Row], bytes | None]:
    """Up to `limit` rows, and the stored key behind which the next page begins (None: the end).

    After PAGE_BUDGET it has fewer rows, and there may be more.
    """
    deadline = time.monotonic() + PAGE_BUDGET
    found: list[Row] = []
    reached: bytes | None = None
    size = 0
    steps = scatter_gather.rows(view, query, limit, after, freshness, what)
    async with aclosing(steps):
        async for rows, reached in steps:
            for number, row in enumerate(rows, 1):
                found.append(row)
                size += len(row[2])
                if len(found) == limit or size > MAX_PAGE_BYTES:
                    at_end = reached is None and number == len(rows)
                    return found, None if at_end else row[0]
            if time.monotonic() > deadline:
                break
    return found, reached
