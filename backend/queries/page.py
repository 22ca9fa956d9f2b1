"""Pages and streams of a view, in the order of its keys, from all partitions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from backend.queries.history import MAX_PAGE_BYTES
from backend.queries.scans.freshness import Freshness
from backend.queries.scans.scatter_gather import ScatterGather
from backend.wire.cursor import Question, encode_cursor
from backend.wire.scan import Query, Row
from backend.wire.scan_codec import ROWS
from model.problems import BadRequest, NonRetryable
from model.records import with_timestamp
from model.views import View

PAGE_BUDGET = 1.0  # s, after which a page ends with the rows it has
STREAM_ROWS = 2_000  # asked of each owner at a time


@dataclass(frozen=True)
class Page:
    """A query, where its page begins, and how many rows the page may have (None: all).

    `resource` is KEYS, WINDOWS or SESSIONS; `after` is a stored key; `partition`: the only one to
    read (None: all).
    """

    resource: str
    query: Query
    limit: int | None
    after: bytes | None
    partition: int | None = None
    timestamps: bool = False  # of the records, in the items
    explain: bool = False  # say how the page is read, instead of reading it
    offsets: bool = False  # say the positions of partitions


def _items(page: Page, rows: Sequence[Row]) -> list[bytes]:
    if not page.timestamps:
        return [item for _, _, item in rows]
    return [with_timestamp(item, head) for _, head, item in rows]


def question(query: Query, resource: str, partition: int | None, view: View) -> Question:
    """What identifies the query of a cursor."""
    asked = query.question(view, resource)
    return asked if partition is None else (*asked, partition)


@dataclass
class PageResult:
    """JSON items, and the cursor of the next page (None: this is the last one)."""

    items: list[bytes]
    next: str | None
    freshness: Freshness


async def read_page(scatter_gather: ScatterGather, view: View, page: Page) -> PageResult:
    """One page. Raises Unavailable."""
    assert page.limit is not None
    check_partition(scatter_gather, view, page)
    freshness = Freshness()
    rows, reached = await first_rows(
        scatter_gather, view, page.query, page.limit, freshness, page.after,
        partitions=_partitions(page),
    )  # fmt: skip
    if page.partition is not None and freshness.mispartitioned:
        raise _several(view)
    cursor = None
    if reached is not None:
        cursor = encode_cursor(question(page.query, page.resource, page.partition, view), reached)
    return PageResult(_items(page, rows), cursor, freshness)


async def stream_page(
    scatter_gather: ScatterGather, view: View, page: Page, freshness: Freshness
) -> AsyncGenerator[tuple[list[bytes], bool]]:
    """The JSON items, some at a time, each time with whether these are the last.

    Unavailable at any step, and BadRequest if more entries would be read than `max_examined`: a
    stream has no cursor to go on from. The first step yields only after all partitions were asked.
    """
    check_partition(scatter_gather, view, page)
    size = min(page.limit or STREAM_ROWS, STREAM_ROWS)
    left = page.limit
    steps = scatter_gather.rows(
        view, page.query, size, page.after, freshness, partitions=_partitions(page)
    )
    async with aclosing(steps):
        async for rows, reached in steps:
            if page.partition is not None and freshness.mispartitioned:
                raise _several(view)
            if left is not None:
                rows = rows[:left]
                left -= len(rows)
            if left != 0:
                freshness.check_examined(page.query.max_examined)
            last = reached is None or left == 0
            yield _items(page, rows), last
            if last:
                return


def _partitions(page: Page) -> list[int] | None:
    return None if page.partition is None else [page.partition]


def check_partition(scatter_gather: ScatterGather, view: View, page: Page) -> None:
    """Check that the page's partition, if one is given, can be read alone. Raises BadRequest if the
    view has no such partition, NonRetryable if a key may be in several."""
    if page.partition is None:
        return
    total = scatter_gather.total(view)
    if page.partition >= total:
        raise BadRequest(
            "bad-parameter", f"partition: view {view.name} has the partitions 0 to {total - 1}."
        )
    if scatter_gather.may_be_in_several(view):
        raise _several(view)


def _several(view: View) -> NonRetryable:
    return NonRetryable(
        "mis-partitioned",
        f"View {view.name} has records in other partitions than those of their keys, or partitions "
        f"were added to its topic, so one partition has no complete entries. Read the whole view, "
        f"without partition.",
    )


async def first_rows(
    scatter_gather: ScatterGather,
    view: View,
    query: Query,
    limit: int,
    freshness: Freshness,
    after: bytes | None = None,
    what: str = ROWS,
    partitions: Sequence[int] | None = None,
) -> tuple[list[Row], bytes | None]:
    """Up to `limit` rows, and the stored key after which the next page begins (None: the end).

    `partitions`: the only ones to read (None: all). After PAGE_BUDGET it has fewer rows, and there
    may be more.
    """
    deadline = time.monotonic() + PAGE_BUDGET
    page: list[Row] = []
    reached: bytes | None = None
    size = 0
    steps = scatter_gather.rows(view, query, limit, after, freshness, what, partitions)
    async with aclosing(steps):
        async for rows, reached in steps:
            for number, row in enumerate(rows, 1):
                page.append(row)
                size += len(row[2])
                if len(page) == limit or size > MAX_PAGE_BYTES:
                    at_end = reached is None and number == len(rows)
                    return page, None if at_end else row[0]
            most = query.max_examined
            if time.monotonic() > deadline or (most is not None and freshness.examined >= most):
                break
    return page, reached
