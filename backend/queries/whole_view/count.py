"""How many entries a view has: an exact count, or RocksDB's estimate if they are many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from backend.queries.filters.parameters import FILTERS, with_filters
from backend.queries.parameters import Parameters
from backend.queries.scans.freshness import Freshness
from backend.queries.scans.reducer import Reducer
from backend.queries.scans.scatter_gather import ScatterGather
from backend.queries.stores import refuse_custom
from backend.queries.whole_view.view_query import QueryResult, Reduction
from backend.wire.scan import Query, ScanResponse
from model.rows.row_view import Pair
from model.views import View

MAX_COUNTED = 100_000  # entries; the count of more is an estimate unless an exact one is asked for


class _Counter:
    """Counts entries, and merges counts."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, pairs: list[Pair]) -> None:
        self.count += len(pairs)

    async def fill(self, response: ScanResponse) -> None:
        response.counted = self.count


class _Sum:
    def __init__(self) -> None:
        self.count = 0

    async def add(self, response: ScanResponse) -> None:
        self.count += response.counted


class Count:
    """Every entry is read, and a key in several partitions counts once. Unreadable ones count, too.

    Without `exact=true` and a condition, the answer is RocksDB's estimate if that is above
    MAX_COUNTED."""

    name = "count"
    parameters = ("exact", "stale", *FILTERS)

    def asked(self, view: View, parameters: Parameters) -> Query:
        refuse_custom(view)
        is_estimate = parameters.choice("exact", "false", "true") == "false"
        return with_filters(view, parameters, Query(stale=parameters.stale()), is_estimate)

    async def answer(
        self, scatter_gather: ScatterGather, view: View, parameters: Parameters, query: Query
    ) -> QueryResult:
        is_exact = parameters.choice("exact", "false", "true") == "true" or query.where is not None
        if not is_exact:
            freshness = Freshness()
            estimate = await scatter_gather.estimate(view, query, freshness)
            if estimate > MAX_COUNTED:
                document = {"count": estimate, "exact": False, "estimate": True}
                return QueryResult(orjson.dumps(document), freshness)
        reduction = Reduction(self, query, _Sum, needs_values=False)
        total, freshness = await reduction.run(scatter_gather, view)
        count = total.count + freshness.unreadable
        return QueryResult(orjson.dumps({"count": count, "exact": True}), freshness)

    def reducer(self, view: View, arguments: Mapping[str, Any]) -> Reducer:
        if arguments:
            raise ValueError("a count has no arguments")
        return _Counter()


COUNT = Count()
