"""An Arrow stream of a view. Each owner makes the record batches of its partitions; this instance
passes them on as they come, in no order."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace

from backend.queries.arrow.batches import arguments_for
from backend.queries.arrow.columns import columns_of
from backend.queries.arrow.messages import batch_part, end_messages, message_in, schema_message
from backend.queries.page import Page, check_partition
from backend.queries.scans.freshness import Freshness
from backend.queries.scans.scatter_gather import ScatterGather, StopWalk
from backend.queries.turns import in_steps
from backend.wire.scan import Query, ScanResponse
from backend.wire.scan_codec import COLUMNS, RAW
from model.problems import BadRequest, Unavailable
from model.views import View

_BATCH_ROWS = 5_000  # serialising more would take longer than a step of a query may
_PIECE = 1_000  # rows

Send = Callable[[bytes], Awaitable[None]]


class ColumnStream:
    """One stream. `freshness`: of what has been read; after `begin`, of all partitions."""

    def __init__(self, scatter_gather: ScatterGather, view: View, page: Page) -> None:
        """Raises BadRequest."""
        query = page.query
        if query.backwards or query.order_by is not None or page.after is not None:
            raise BadRequest(
                "bad-parameter",
                "An Arrow stream has no order: leave out order, order_by and cursor, and sort what "
                "you have read.",
            )
        try:
            self._columns = columns_of(view, query.select, page.timestamps)
        except ValueError as e:
            raise BadRequest("bad-parameter", f"select: {e}.") from None
        self._scatter_gather, self._view, self._page = scatter_gather, view, page
        # columns depend on the types of fields
        self._query = replace(query, fields=view.fields_hash)
        self._only = None if page.partition is None else [page.partition]
        self._left = math.inf if page.limit is None else page.limit
        self._rows = 0
        self.freshness = Freshness()

    async def begin(self) -> None:
        """Asks all owners how fresh they are, so that a problem is answered before the stream
        begins. Raises Unavailable, BadRequest."""
        check_partition(self._scatter_gather, self._view, self._page)
        await self._scatter_gather.estimate(self._view, self._query, self.freshness, self._only)

    async def send(self, send: Send) -> None:
        """Sends all messages. Raises Unavailable, BadRequest, and what `send` raises."""
        await send(schema_message(self._columns.schema))
        several = self._scatter_gather.may_be_in_several(self._view)
        if several or self.freshness.mispartitioned:
            await self._send_newest(send)
        else:
            await self._send_parts(send)
        await send(end_messages(self._columns.schema, self._rows, self.freshness.positions))

    async def _send_parts(self, send: Send) -> None:
        request = self._scatter_gather.request(
            self._view,
            COLUMNS,
            self._query,
            int(min(_BATCH_ROWS, self._left)),
            arguments_for(self._columns),
        )
        turn = asyncio.Lock()  # owners answer at the same time

        async def take(response: ScanResponse) -> None:
            async with turn:
                self._note(response)
                for _, _, part in response.rows:
                    await self._send_part(part, send)

        with suppress(StopWalk):
            await self._scatter_gather.walk(request, math.inf, take, self._only)

    async def _send_newest(self, send: Send) -> None:
        """The newest row of each key is found here, because keys may be in several partitions."""
        query: Query = replace(self._query, select=None)
        rows = self._scatter_gather.rows(self._view, query, _BATCH_ROWS, None, self.freshness, RAW)
        with suppress(StopWalk):
            async with aclosing(rows):
                async for step, _ in rows:
                    self._check()
                    async for piece in in_steps(step, _PIECE):
                        batch = self._columns.batch(
                            [(key, head + item) for key, head, item in piece]
                        )
                        await self._send_part(batch_part(batch), send)

    def _note(self, response: ScanResponse) -> None:
        self.freshness.note(response)
        if response.mispartitioned:
            # the rows so far may not be the newest of their keys
            raise Unavailable("repartitioned", "Partitions were added while the view was read.")
        self._check()

    def _check(self) -> None:
        self.freshness.check_examined(self._query.max_examined)

    async def _send_part(self, part: bytes, send: Send) -> None:
        most = None if self._left == math.inf else int(self._left)
        try:
            message, rows = message_in(part, self._columns.schema, most)
        except ValueError:
            raise Unavailable(
                "owner-unreachable", "The response of an instance cannot be read."
            ) from None
        await send(message)
        self._rows += rows
        self._left -= rows
        if not self._left:
            raise StopWalk
