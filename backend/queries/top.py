"""The entries of a view with the greatest (or least) numbers in their values."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass

from backend.queries.page import STREAM_ROWS
from backend.queries.ranking import MOST_RANKED_BYTES, Best, Ranked, Ranking
from backend.queries.scans.merging import slices
from backend.queries.scans.scatter_gather import WALK_BUDGET, Freshness, ScatterGather, for_view
from backend.wire.scan import Query, ScanResponse
from backend.wire.scan_codec import TOP
from model.problems import BadRequest, Unavailable
from model.views import View


@dataclass(frozen=True)
class Top:
    """`by`: the path of the number in JSON or Avro values; None where values are numbers."""

    by: str | None
    descending: bool
    limit: int
    stale: str | None


@dataclass
class TopResult:
    """JSON items in order."""

    items: list[bytes]
    freshness: Freshness


async def read_top(scatter_gather: ScatterGather, view: View, top: Top) -> TopResult:
    """BadRequest if the view has no such numbers, or the items are too large; Unavailable."""
    ranks_of = Ranking(view, top.by, top.descending).of_items
    query, freshness = Query(stale=top.stale), Freshness()
    ask = for_view(
        view, scatter_gather.total(view), TOP, query,
        limit=top.limit, by=top.by, descending=top.descending,
    )  # fmt: skip
    best = Best(top.limit, MOST_RANKED_BYTES)

    async def take(part: ScanResponse) -> None:
        freshness.note(part)
        ranked: list[Ranked] = []
        for rows in slices(part.rows):
            try:
                ranks = ranks_of([item for _, _, item in rows])
            except (ValueError, KeyError, TypeError):  # the rows of a peer are not items
                raise Unavailable("owner-unreachable", "An answer cannot be read.") from None
            ranked += [
                (rank, key, item)
                for rank, (key, _, item) in zip(ranks, rows, strict=True)
                if rank is not None
            ]
            await asyncio.sleep(0)  # what was parsed may be large
        best.add(ranked, part.complete)

    mispartitioned = scatter_gather.is_mispartitioned(view)
    if not mispartitioned:
        await scatter_gather.walk(ask, WALK_BUDGET, take)
    if mispartitioned or freshness.mispartitioned:
        # a key may be in two partitions: its newest entry counts
        best = Best(top.limit, MOST_RANKED_BYTES)
        steps = scatter_gather.rows(view, query, STREAM_ROWS, None, freshness)
        async with aclosing(steps):
            async for rows, _ in steps:
                await take(ScanResponse(rows, lag=freshness.lag, staleness=freshness.staleness))
    if best.short:
        raise BadRequest(
            "too-many-entries",
            f"The first {top.limit} entries have more than {MOST_RANKED_BYTES >> 20} MiB together: "
            f"ask for limit={len(best.entries)}, or stream the view.",
        )
    return TopResult([item for _, _, item in best.entries], freshness)
