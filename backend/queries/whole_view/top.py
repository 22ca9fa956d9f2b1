"""The entries of a view with the greatest (or least) numbers in their values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from backend.queries.filters.parameters import FILTERS, with_filters
from backend.queries.history import MAX_LIMIT
from backend.queries.parameters import Parameters
from backend.queries.scans.merging import slices
from backend.queries.scans.reducer import Reducer
from backend.queries.scans.scatter_gather import ScatterGather
from backend.queries.stores import KEYS, refuse_custom
from backend.queries.turns import next_turn
from backend.queries.whole_view.order import ORDERS, is_descending
from backend.queries.whole_view.ranking import Best, Ranked, Ranking
from backend.queries.whole_view.top_keys import OPEN_KEYS, KeyMerger, KeyRanking, KeyReducer
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
    argument: they would leave such entries out. `order_by`: the number of keys to rank by, in a
    view of windows or sessions."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    by: str | None
    descending: bool
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)]
    decimals: bool = False
    order_by: str | None = None

    def reducer(self, view: View) -> _TopReducer | KeyReducer:
        """Raises BadRequest if the view has no such numbers."""
        best = Best(self.limit, MAX_RANKED_BYTES)
        if self.order_by is None:
            return _TopReducer(view, Ranking(view, self.by, self.descending), best)
        return KeyReducer(view, self._key_ranking(view, self.order_by), best)

    def merger(self, view: View) -> _TopMerger | KeyMerger:
        """Raises BadRequest if the view has no such numbers."""
        best = Best(self.limit, MAX_RANKED_BYTES)
        if self.order_by is None:
            return _TopMerger(Ranking(view, self.by, self.descending), best)
        return KeyMerger(self._key_ranking(view, self.order_by), best)

    def _key_ranking(self, view: View, order_by: str) -> KeyRanking:
        return KeyRanking(view, self.by, order_by, self.descending)


class _TopReducer:
    """The first entries of one partition."""

    def __init__(self, view: View, ranking: Ranking, best: Best) -> None:
        self._ranking = ranking
        self._text: Pair | None = None  # an entry with a text instead of a number
        self._render = view.kind.render(view)
        self._best = best

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
    def __init__(self, ranking: Ranking, best: Best) -> None:
        self._ranking = ranking
        self._best = best

    async def add(self, response: ScanResponse) -> None:
        ranked: list[Ranked] = []
        for rows in slices(response.rows):
            ranks = self._ranking.rank_items([item for _, _, item in rows])
            ranked += [
                (rank, key, item)
                for rank, (key, _, item) in zip(ranks, rows, strict=True)
                if rank is not None
            ]
            await next_turn()  # the rows may be large
        self._best.add(ranked, response.complete)

    def finish(self) -> Best:
        """The first entries. Raises BadRequest if the field has texts, but no number."""
        if not self._best.entries and self._ranking.text is not None:
            raise self._ranking.refusal()
        return self._best


class Top:
    """`by`: the field of JSON or Avro values to rank by. In a view of windows or sessions, keys are
    ranked by a number of all their entries, by default the sum."""

    name = "top"
    parameters = ("by", "order_by", "order", "limit", "from", "to", "stale", *FILTERS)

    def asked(self, view: View, parameters: Parameters) -> Query:
        refuse_custom(view)
        first, last = parameters.time("from"), parameters.time("to")
        query = Query(first=first, last=last, stale=parameters.stale())
        return with_filters(view, parameters, query)

    async def answer(
        self, scatter_gather: ScatterGather, view: View, parameters: Parameters, query: Query
    ) -> QueryResult:
        """Raises BadRequest if the view has no such numbers, or the items are too large."""
        arguments = _Arguments(
            by=parameters.text("by"),
            descending=is_descending(parameters),
            limit=parameters.limit(),
            decimals=view.value_codec.quotes_numbers,
            order_by=_order_by(view, parameters),
        )
        reduction = Reduction(
            self,
            query,
            partial(arguments.merger, view),
            arguments.limit + 1 + (OPEN_KEYS if arguments.order_by else 0),
            arguments.model_dump(exclude_defaults=True),
        )
        merged, freshness = await reduction.run(scatter_gather, view)
        best = merged.finish()
        if best.short:
            raise BadRequest(
                "too-many-entries",
                f"The first {arguments.limit} entries have more than {MAX_RANKED_BYTES >> 20} MiB "
                f"together: ask for limit={len(best.entries)}, or stream the view.",
            )
        items = b",".join([item for _, _, item in best.entries])
        return QueryResult(b'{"items":[%b]}' % items, freshness)

    def reducer(self, view: View, arguments: Mapping[str, Any]) -> Reducer:
        refuse_custom(view)
        parsed = _Arguments.model_validate(arguments)
        if parsed.decimals != view.value_codec.quotes_numbers:
            raise ValueError("an instance of an earlier release would leave decimals out")
        if (parsed.order_by is None) != (view.kind.resource == KEYS):
            raise ValueError("order_by is for windows and sessions")
        return parsed.reducer(view)


TOP = Top()


def _order_by(view: View, parameters: Parameters) -> str | None:
    """The number to rank keys by; None if a key has one entry. Raises BadRequest."""
    if view.kind.resource != KEYS:
        return parameters.choice("order_by", *ORDERS)
    for name in ("from", "to", "order_by"):
        if parameters.raw(name) is not None:
            raise BadRequest(
                "bad-parameter",
                f"{name} is for windows and sessions: a key of {view.name} has one value.",
            )
    return None
