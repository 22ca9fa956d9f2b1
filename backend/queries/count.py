"""How many entries a view has: RocksDB's estimate, or an exact count."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass

from backend.queries.page import STREAM_ROWS
from backend.queries.scans.scatter_gather import WALK_BUDGET, Freshness, ScatterGather, for_view
from backend.wire.scan import Query, ScanResponse
from backend.wire.scan_codec import BARE, COUNT, ESTIMATE
from model.views import View


@dataclass
class CountResult:
    """The number of entries in all partitions."""

    count: int
    freshness: Freshness


async def read_count(
    scatter_gather: ScatterGather, view: View, exact: bool, stale: str | None
) -> CountResult:
    """`exact`: every entry is looked at, and a key in several partitions counts once.

    Unavailable.
    """
    query, freshness = Query(stale=stale), Freshness()
    count = 0
    total = scatter_gather.total(view)
    if not exact:
        ask = for_view(view, total, ESTIMATE, query)
        for _, part in await scatter_gather.ask(ask, list(range(total))):
            freshness.note(part)
            count += part.counted
        return CountResult(count, freshness)

    async def take(part: ScanResponse) -> None:
        nonlocal count
        freshness.note(part)
        count += part.counted

    mispartitioned = scatter_gather.is_mispartitioned(view)
    if not mispartitioned:
        await scatter_gather.walk(for_view(view, total, COUNT, query), WALK_BUDGET, take)
    if mispartitioned or freshness.mispartitioned:
        # a key may be in two partitions: it counts once
        count = 0
        steps = scatter_gather.rows(view, query, STREAM_ROWS, None, freshness, BARE)
        async with aclosing(steps):
            async for rows, _ in steps:
                count += len(rows)
    return CountResult(count, freshness)
