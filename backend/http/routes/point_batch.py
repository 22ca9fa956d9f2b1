"""Coalesced point reads from the proxy: `POST /internal/reads`.

Each read gets the same answer as on its own. A read that has to wait, is refused, or belongs to
another instance gets none, and the proxy sends it separately. The cost of a read here decides the
proxy's throughput.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from itertools import islice
from time import thread_time

from backend.http.access import AccessControl
from backend.http.paths import Paths
from backend.http.request import Request
from backend.http.routes.batched_keys import BatchedKeys
from backend.http.routes.batched_paths import BatchedPaths
from backend.instance_context import InstanceContext
from backend.queries.turns import STEP_S, next_turn
from backend.telemetry.latencies import TurnReads
from backend.wire.answer import Answer, Header
from backend.wire.plain_requests import is_token
from backend.wire.point_batch import (
    Head,
    Item,
    KeyAnswers,
    Reads,
    TooManyLines,
    decode_reads,
    encode_answers,
)
from model.problems import BadRequest, Problem

CONTENT_TYPE: Header = (b"content-type", b"application/octet-stream")

MAX_VERIFICATIONS = 8
"""The maximum number of tokens that are verified for one request. Verifying one takes up to 0.2 ms,
and all reads of the request wait. Reads with further unknown tokens are sent separately."""

_MANY = 128  # reads, one by one: 4 ms


class PointBatchRoute:
    """Answers many point reads at once."""

    def __init__(
        self,
        context: InstanceContext,
        keys: BatchedKeys,
        paths: BatchedPaths,
        access: AccessControl,
        turn: TurnReads,
    ) -> None:
        self._context = context
        self._keys = keys
        self._paths = paths
        self._access = access
        self._turn = turn

    def use(self, paths: Paths) -> None:
        """Other versions of views are current. Called in any thread."""
        self._keys.use(paths)
        self._paths.use(paths)

    async def reads(self, request: Request) -> Answer:
        """In steps, for requests that were not answered on arrival."""
        groups = self._groups(request.body)
        self._turn.begin()
        steps, began = self._answering(groups), thread_time()
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
        """Whether others should not wait for all of the reads: many must be read one by one."""
        return len(body) > _MANY and body.count(b"%") > _MANY and body.count(b"\n") > _MANY

    def answer(self, body: bytes) -> Answer:
        """The framed answers to framed reads; BadRequest if they are malformed, or too many."""
        groups = self._groups(body)
        for group in groups:
            if group.partition is None:
                break
        else:
            return self._framed(self._keys.answer(groups))
        steps = self._answering(groups)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                answer: Answer = ended.value
                return answer

    def _groups(self, body: bytes) -> list[Reads]:
        try:
            groups = decode_reads(body)
        except ValueError as error:
            code = "too-many-keys" if isinstance(error, TooManyLines) else "bad-request"
            raise BadRequest(code, str(error)) from None
        if self._access.is_on:
            self._verify_tokens(groups)
        return groups

    def _answering(self, groups: Sequence[Reads]) -> Generator[None, None, Answer]:
        """Returns the answer. Yields after some of the reads that are answered one by one."""
        keys = self._keys.answer(group for group in groups if group.partition is not None)
        of_paths = [group for group in groups if group.partition is None]
        heads, items = yield from self._paths.answer(of_paths)
        return self._framed(keys, heads, items)

    def _framed(
        self, keys: Sequence[KeyAnswers], heads: Sequence[Head] = (), items: Sequence[Item] = ()
    ) -> Answer:
        framed = encode_answers(self._context.epoch_header, keys, heads, items)
        return Answer(200, [CONTENT_TYPE], framed)

    def _verify_tokens(self, groups: Sequence[Reads]) -> None:
        """Verifies tokens that are not known. Those that are refused, or whose keys are being
        fetched, stay unknown."""
        access = self._access
        tokens = dict.fromkeys(group.token for group in groups if group.token is not None)
        unknown = (token for token in tokens if not access.is_known(token))
        for token in islice(unknown, MAX_VERIFICATIONS):
            if is_token(token):
                with suppress(Problem):
                    access.verify(token)
