"""The interface of a query of a whole view, and the reduction of all its partitions.

A query is one class. The instance that gets the request parses its parameters, sends every owner
a scan with the query's arguments, and merges the responses. An owner reduces one partition at a
time, slice by slice, with the query's reducer.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from backend.queries.page import STREAM_ROWS
from backend.queries.parameters import Parameters
from backend.queries.scans.freshness import Freshness
from backend.queries.scans.reducer import Reducer
from backend.queries.scans.scatter_gather import (
    WALK_BUDGET,
    ScatterGather,
    StopWalk,
    took_too_long,
)
from backend.wire.scan import Query, ScanResponse
from backend.wire.scan_codec import BARE, RAW
from model.problems import Unavailable
from model.rows.unreadable import split
from model.views import View


@dataclass
class QueryResult:
    """A JSON object, and how fresh it is. If there are entries whose values cannot be read, the
    object has their number as `unreadable`."""

    document: bytes
    freshness: Freshness

    @property
    def body(self) -> bytes:
        unreadable = self.freshness.unreadable
        more = b',"unreadable":%d' % unreadable if unreadable else b""
        return b"%b%b}" % (self.document[:-1], more)


class ViewQuery(Protocol):
    """One query. `registry.py` lists all; each has the path `/views/{view}/{name}`."""

    @property
    def name(self) -> str:
        """The last segment of the path, the name of the reducer, and the label in metrics."""

    @property
    def parameters(self) -> Sequence[str]:
        """Names of the parameters in the query string."""

    def asked(self, view: View, parameters: Parameters) -> Query:
        """The entries that the parameters ask for. Raises BadRequest."""

    async def answer(
        self, scatter_gather: ScatterGather, view: View, parameters: Parameters, query: Query
    ) -> QueryResult:
        """`query`: as `asked` gives it. BadRequest, Unavailable."""

    def reducer(self, view: View, arguments: Mapping[str, Any]) -> Reducer:
        """The reducer for one partition; see `NewReducer`."""


class Merger(Protocol):
    """Merges the responses of reducers for several partitions, in any order."""

    async def add(self, response: ScanResponse) -> None:
        """Raises ValueError, KeyError or TypeError if a peer's response is malformed, BadRequest if
        there is too much to merge."""


_Merger = TypeVar("_Merger", bound=Merger)


@dataclass
class Reduction(Generic[_Merger]):
    """One request: the scan of each partition, and the merger of the responses.

    `limit`: the maximum number of rows in a response. `needs_values`: whether the reducer looks at
    values.
    """

    view_query: ViewQuery
    query: Query
    new_merger: Callable[[], _Merger]
    limit: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    needs_values: bool = True

    async def run(self, scatter_gather: ScatterGather, view: View) -> tuple[_Merger, Freshness]:
        """The merged responses of all partitions. Unavailable, and what the merger raises."""
        freshness, merger, unreadable = Freshness(), self.new_merger(), 0
        request = scatter_gather.request(
            view, self.view_query.name, self.query, self.limit, self.arguments
        )

        async def take(response: ScanResponse) -> None:
            nonlocal unreadable
            freshness.note(response)
            if freshness.mispartitioned:
                raise StopWalk  # a key may be in several partitions: start again below
            try:
                await merger.add(response)
            except (ValueError, KeyError, TypeError):
                raise _malformed() from None
            unreadable += response.unreadable
            freshness.check_examined(self.query.max_examined)

        in_several = scatter_gather.may_be_in_several(view)
        if not in_several:
            with suppress(StopWalk):
                await scatter_gather.walk(request, WALK_BUDGET, take)
        if in_several or freshness.mispartitioned:
            merger = self.new_merger()
            response = await self._reduce_newest(scatter_gather, view, freshness)
            await merger.add(response)
            unreadable = response.unreadable
        freshness.unreadable = unreadable
        return merger, freshness

    async def _reduce_newest(
        self, scatter_gather: ScatterGather, view: View, freshness: Freshness
    ) -> ScanResponse:
        """Reduces the newest entry of each key here, because a key may be in several partitions."""
        ends = time.monotonic() + WALK_BUDGET
        reducer, response = self.view_query.reducer(view, self.arguments), ScanResponse()
        needs_values = self.needs_values or self.query.where is not None
        kind = RAW if needs_values else BARE
        steps = scatter_gather.rows(view, self.query, STREAM_ROWS, None, freshness, kind)
        async with aclosing(steps):
            async for rows, _ in steps:
                if time.monotonic() > ends:
                    raise took_too_long(WALK_BUDGET)
                freshness.check_examined(self.query.max_examined)
                try:
                    pairs = [(key, head + value) for key, head, value in rows]
                    pairs, unreadable = split(view, pairs)
                    response.unreadable += unreadable
                    reducer.add(pairs)
                except (ValueError, KeyError, TypeError, struct.error):
                    raise _malformed() from None
        await reducer.fill(response)
        return response


def _malformed() -> Unavailable:
    return Unavailable("owner-unreachable", "The response of an instance cannot be read.")
