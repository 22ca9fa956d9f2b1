"""The entries of a view with the greatest (or least) numbers in their values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from backend.queries.history import MAX_LIMIT
from backend.queries.parameters import Parameters
from backend.queries.scans.merging import slices
from backend.queries.scans.reducer import Reducer
from backend.queries.scans.scatter_gather import ScatterGather
from backend.queries.stores import KEYS, refuse_store
from backend.queries.turns import next_turn
from backend.queries.whole_view.ranking import Best, Ranked, Ranking
from backend.queries.whole_view.view_query import QueryResult, Reduction
from backend.wire.scan import Query, ScanResponse
from model.problems import BadRequest
from model.records import ENTRY_HEAD_SIZE
from model.rows.row_view import Pair
from model.views import View

MAX_RANKED_BYTES = 4 << 20  # of all entries that are in memory


class _Arguments(BaseModel):
    """`by`: the path of the number in JSON or Avro values; None where values are numbers.
    `decimals`: whether texts of digits are numbers. Instances of earlier releases refuse this
    argument: they would leave such entries out."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    by: str | None
    descending: bool
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)]
    decimals: bool = False

    def ranking(self, view: View) -> Ranking:
        """Raises BadRequest if the view has no such numbers."""
        return Ranking(view, self.by, self.descending)


class _TopReducer:
    """The first entries of one partition."""

    def __init__(self, view: View, arguments: _Arguments) -> None:
        self._ranking = arguments.ranking(view)
        self._text: Pair | None = None  # an entry with a text instead of a number
        self._render = view.kind.render(view)
        self._best = Best(arguments.limit, MAX_RANKED_BYTES)

    def add(self, pairs: list[Pair]) -> None:
        ranks = self._ranking.rank_values([stored[ENTRY_HEAD_SIZE:] for _, stored in pairs])
        if self._text is None and self._ranking.text is not None:
            self._text = next(filter(self._has_text, pairs), None)
        worst = self._best.worst
        # keys come in order: an entry of the worst rank comes after those that have this rank
        self._best.add(
            [
                (rank, key, stored)
                for rank, (key, stored) in zip(ranks, pairs, strict=True)
                if rank is not None and (worst is None or rank < worst)
            ]
        )

    def _has_text(self, pair: Pair) -> bool:
        return self._ranking.has_text(pair[1][ENTRY_HEAD_SIZE:])

    async def fill(self, response: ScanResponse) -> None:
        """Put the entries into the response, then the first one that was left out, if not
        `complete`. If there are no entries, put one with a text instead of a number."""
        best = self._best
        if not best.entries and self._text is not None:
            [item] = self._render([self._text])
            response.rows = [(self._text[0], self._text[1][:ENTRY_HEAD_SIZE], item)]
            return
        ranked = best.entries if best.end is None else [*best.entries, best.end]
        items = self._render([(key, stored) for _, key, stored in ranked])
        response.rows = [
            (key, stored[:ENTRY_HEAD_SIZE], item)
            for (_, key, stored), item in zip(ranked, items, strict=True)
        ]
        response.complete = best.end is None


class _TopMerger:
    def __init__(self, view: View, arguments: _Arguments) -> None:
        self.ranking = arguments.ranking(view)
        self.best = Best(arguments.limit, MAX_RANKED_BYTES)

    async def add(self, response: ScanResponse) -> None:
        ranked: list[Ranked] = []
        for rows in slices(response.rows):
            ranks = self.ranking.rank_items([item for _, _, item in rows])
            ranked += [
                (rank, key, item)
                for rank, (key, _, item) in zip(ranks, rows, strict=True)
                if rank is not None
            ]
            await next_turn()  # the rows may be large
        self.best.add(ranked, response.complete)


class Top:
    """`by`: the field of JSON or Avro values to rank by."""

    name = "top"
    parameters = ("by", "order", "limit", "stale")

    async def answer(
        self, scatter_gather: ScatterGather, view: View, parameters: Parameters
    ) -> QueryResult:
        """Raises BadRequest if the view has no such numbers, or the items are too large."""
        refuse_store(view, KEYS)
        arguments = _Arguments(
            by=parameters.text("by"),
            descending=parameters.choice("order", "desc", "asc") == "desc",
            limit=parameters.limit(),
            decimals=view.value_codec.quotes_numbers,
        )
        reduction = Reduction(
            self,
            Query(stale=parameters.stale()),
            partial(_TopMerger, view, arguments),
            arguments.limit + 1,
            arguments.model_dump(exclude_defaults=True),
        )
        merged, freshness = await reduction.run(scatter_gather, view)
        best = merged.best
        if not best.entries and merged.ranking.text is not None:
            raise merged.ranking.refusal()
        if best.short:
            raise BadRequest(
                "too-many-entries",
                f"The first {arguments.limit} entries have more than {MAX_RANKED_BYTES >> 20} MiB "
                f"together: ask for limit={len(best.entries)}, or stream the view.",
            )
        items = b",".join([item for _, _, item in best.entries])
        return QueryResult(b'{"items":[%b]}' % items, freshness)

    def reducer(self, view: View, arguments: Mapping[str, Any]) -> Reducer:
        refuse_store(view, KEYS)
        parsed = _Arguments.model_validate(arguments)
        if parsed.decimals != view.value_codec.quotes_numbers:
            raise ValueError("an instance of an earlier release would leave decimals out")
        return _TopReducer(view, parsed)


TOP = Top()
