"""Asks other instances and the broker whether offsets belong to a key: see `other_offsets`."""

from __future__ import annotations

from contextlib import suppress

from backend.instance.context import QueryContext
from backend.queries.other_offsets import OffsetsInDoubt
from backend.queries.routing import KeyRouting
from backend.queries.scans.scatter_gather import ScatterGather
from backend.wire.scan import Query
from backend.wire.scan_codec import BARE
from model.kinds import layout
from model.problems import Unavailable

_NOTHING = Query(layout.ALL[0], layout.ALL[0])
"""A range without entries: the answer has the positions of the partitions."""


class OffsetChecks:
    """Finds out more about offsets in doubt, for the next attempt of a read."""

    def __init__(self, context: QueryContext, scatter_gather: ScatterGather) -> None:
        self._context = context
        self._scatter_gather = scatter_gather

    async def resolve(self, reads: KeyRouting, doubt: OffsetsInDoubt) -> None:
        """Ask the instances that have the partitions. If they do not know enough, the broker is
        asked, and the next read may succeed."""
        with suppress(Unavailable):
            request = self._scatter_gather.request(reads.view, BARE, _NOTHING, 1)
            partitions = sorted(p for p in doubt.offsets if p < request.total)
            for _, response in await self._scatter_gather.ask(request, partitions):
                reads.other_offsets.note(response)
        if any(reads.other_offsets.is_in_doubt(*item) for item in doubt.offsets.items()):
            self._context.metadata_poller.refresh()
