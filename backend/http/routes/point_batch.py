"""Coalesced point reads, from the proxy or another instance: `POST /internal/reads`.

Each read gets the same answer as on its own. A read that has to wait, is refused, or belongs to
another instance gets none, and the sender asks for it separately. The cost of a read here decides
the proxy's throughput.
"""

from __future__ import annotations

from backend.cluster.group_state import GroupState
from backend.http.access import AccessControl, Readers
from backend.http.paths import Paths
from backend.http.request import Request
from backend.http.routes.batched_keys import BatchedKeys
from backend.telemetry.latencies import TurnReads
from backend.wire.answer import Answer, Header
from backend.wire.point_batch import (
    AnswerBudget,
    Reads,
    TooManyReads,
    decode_reads,
)
from model.problems import BadRequest

CONTENT_TYPE: Header = (b"content-type", b"application/octet-stream")


class PointBatchRoute:
    """Answers many point reads at once."""

    def __init__(
        self,
        group: GroupState,
        keys: BatchedKeys,
        access: AccessControl,
        turn: TurnReads,
    ) -> None:
        self._group = group
        self._keys = keys
        self._access = access
        self._turn = turn

    def use(self, paths: Paths) -> None:
        """Uses other paths: other versions of views have become current. Called in any thread."""
        self._keys.use(paths)

    async def reads(self, request: Request) -> Answer:
        """Answers a request that was not answered on arrival."""
        self._turn.begin()
        return self.answer(request.body)

    def answer(self, body: bytes) -> Answer:
        """The framed answers to framed reads. Raises BadRequest if they are malformed, or too
        many."""
        readers, groups = self._parsed(body)
        keys = self._keys.answer(groups, readers, AnswerBudget())
        return Answer(200, [CONTENT_TYPE], keys.response(self._group.epoch_header))

    def _parsed(self, body: bytes) -> tuple[Readers, list[Reads]]:
        try:
            digests, groups = decode_reads(body)
        except ValueError as error:
            code = "too-many-keys" if isinstance(error, TooManyReads) else "bad-request"
            raise BadRequest(code, str(error)) from None
        return self._access.readers(digests), groups
