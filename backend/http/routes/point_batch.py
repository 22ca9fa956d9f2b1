"""Coalesced point reads from the proxy: `POST /internal/reads`.

Each read gets the same answer as on its own. A read that has to wait, is refused, or belongs to
another instance gets none, and the proxy sends it separately. The cost of a read here decides the
proxy's throughput.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from time import thread_time

from backend.cluster.group_state import GroupState
from backend.http.access import AccessControl, Readers
from backend.http.paths import Paths
from backend.http.request import Request
from backend.http.routes.batched_keys import BatchedKeys
from backend.http.routes.batched_paths import BatchedPaths
from backend.queries.pace import STEP_S
from backend.queries.turns import next_turn
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

_MANY = 128  # reads, one by one: 4 ms


class PointBatchRoute:
    """Answers many point reads at once."""

    def __init__(
        self,
        group: GroupState,
        keys: BatchedKeys,
        paths: BatchedPaths,
        access: AccessControl,
        turn: TurnReads,
    ) -> None:
        self._group = group
        self._keys = keys
        self._paths = paths
        self._access = access
        self._turn = turn

    def use(self, paths: Paths) -> None:
        """Uses other paths: other versions of views have become current. Called in any thread."""
        self._keys.use(paths)
        self._paths.use(paths)

    async def reads(self, request: Request) -> Answer:
        """Answers, in steps, a request that was not answered on arrival."""
        steps, began = self._answering(*self._parsed(request.body)), thread_time()
        self._turn.begin()
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                answer: Answer = ended.value
                return answer
            if thread_time() - began >= STEP_S:
                await next_turn()
                began = thread_time()

    def takes_long(self, body: bytes) -> bool:
        """Whether other requests should not wait until all reads are answered, because many must be
        read one by one."""
        return body.count(b"%") > _MANY and body.count(b"\n") > _MANY

    def answer(self, body: bytes) -> Answer:
        """The framed answers to framed reads. Raises BadRequest if they are malformed, or too
        many."""
        readers, groups = self._parsed(body)
        for group in groups:
            if group.partition is None:
                break
        else:
            keys = self._keys.answer(groups, readers, AnswerBudget())
            return Answer(200, [CONTENT_TYPE], keys.response(self._group.epoch_header))
        steps = self._answering(readers, groups)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                answer: Answer = ended.value
                return answer

    def _parsed(self, body: bytes) -> tuple[Readers, list[Reads]]:
        try:
            digests, groups = decode_reads(body)
        except ValueError as error:
            code = "too-many-keys" if isinstance(error, TooManyReads) else "bad-request"
            raise BadRequest(code, str(error)) from None
        return self._access.readers(digests), groups

    def _answering(
        self, readers: Readers, groups: Sequence[Reads]
    ) -> Generator[None, None, Answer]:
        """Returns the answer. Yields from time to time while it answers reads one by one."""
        budget = AnswerBudget()
        key_groups = (group for group in groups if group.partition is not None)
        keys = self._keys.answer(key_groups, readers, budget)
        path_groups = [group for group in groups if group.partition is None]
        heads, items = yield from self._paths.answer(path_groups, readers, budget)
        framed = keys.response(self._group.epoch_header, heads, items)
        return Answer(200, [CONTENT_TYPE], framed)
