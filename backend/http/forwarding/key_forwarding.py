"""Answers to requests that name a key: from this instance, another one or all partitions.

All such requests use this module, also those of KIQR's dialect. The retry rule is the same as for
all queries (`queries/retry.py`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from backend.http.forwarding.coalesced_forwards import CoalescedForwards
from backend.http.forwarding.received_keys import key_read
from backend.instance.context import QueryContext
from backend.queries.moved_keys import PartitionUnknown
from backend.queries.other_offsets import OffsetsInDoubt
from backend.queries.point import ViewReads
from backend.queries.retry import Asker, Holder, Rounds, may_change
from backend.queries.routing import BOUND_CODES, PLAIN, NotOwner, ReadOptions
from backend.queries.scans.offset_checks import OffsetChecks
from backend.queries.scans.scatter_gather import ScatterGather
from backend.security.authorization import AUTHORIZATION
from backend.wire.answer import MARK, Answer, Header, code_of, problem_answer, unless_known
from backend.wire.plain_requests import is_token
from model.problems import NonRetryable, Unavailable
from model.topology import Member

_T = TypeVar("_T")
_MAX_REDIRECTED = 8192
"""The longest target (bytes) that is redirected. A request with a longer target is forwarded,
because the proxy would take an instance for broken if it sends very long headers."""
# Headers of one request: its id in the logs, and what another instance says. A request with one of
# them is not coalesced, because a coalesced read has no headers of its own.
_UNSHARED_HEADERS = (b"traceparent", MARK)


@dataclass(slots=True)
class KeyQuery:
    """A query for one key. `read` asks this instance once, and raises NotOwner or Problem.
    `read_all` asks all partitions, for keys that may be in any of them. `key`: as it is in records,
    if the query is for its value."""

    reads: ViewReads
    options: ReadOptions
    read: Callable[[], Answer]
    read_all: Callable[[], Awaitable[Answer]]
    key: bytes | None = None


@dataclass(slots=True)
class ForwardableRequest:
    """A request in the form that is sent to another instance."""

    method: str
    path: bytes
    query: bytes
    headers: list[Header]

    @property
    def target(self) -> bytes:
        return self.path + b"?" + self.query if self.query else self.path

    @property
    def is_forwarded(self) -> bool:
        """Whether it came from another instance: then it is not forwarded again."""
        return any(name == MARK for name, _ in self.headers)


class KeyForwarding:
    """Answers queries for one key: here, by a forward, or from all partitions."""

    def __init__(self, context: QueryContext, asker: Asker, scatter_gather: ScatterGather) -> None:
        self._context = context
        self._asker = asker
        self._offset_checks = OffsetChecks(context, scatter_gather)
        self.coalesced = CoalescedForwards(asker)

    async def stop(self) -> None:
        await self.coalesced.close()

    async def answer(self, query: KeyQuery, request: ForwardableRequest) -> Answer:
        """The answer to a query: from this instance, from another one, or from all partitions.
        Raises Problem."""
        reads, options = query.reads, query.options
        rounds = self._rounds(request)
        answer: Answer | None = None

        async def attempt() -> bool:
            # each attempt looks up the topology and the store partitions again
            nonlocal answer
            try:
                answer = await _repeat_read(partial(self._read_here, query), rounds, request)
            except PartitionUnknown:
                if options.local or reads.view.is_custom:
                    raise
                try:
                    answer = await query.read_all()
                except Unavailable as unavailable:
                    if not options.bounded or isinstance(unavailable, NonRetryable):
                        raise
                    rounds.refused(unavailable.code)
                    answer = problem_answer(unavailable)
                    return True
            except NotOwner as others:
                if options.local:
                    raise others.why from None
                if options.redirect and len(request.target) <= _MAX_REDIRECTED:
                    answer = _redirect(others, request)
                    return False
                answer = await self._forward(query, others, rounds, request)
                return may_change(answer)
            return False

        await rounds.repeat(attempt)
        assert answer is not None
        return unless_known(answer, request.headers)

    async def _read_here(self, query: KeyQuery) -> Answer:
        try:
            return query.read()
        except OffsetsInDoubt as doubt:
            if query.options.local:
                raise
            await self._offset_checks.resolve(query.reads, doubt)
            return query.read()

    async def read(self, read: Callable[[], _T], request: ForwardableRequest) -> _T:
        """The result of `read` on this instance, retried until the wait is over. Raises NotOwner as
        soon as another instance can be asked, or Problem."""

        async def read_here() -> _T:
            return read()

        return await _repeat_read(read_here, self._rounds(request), request)

    async def begin_stream(
        self,
        stack: AsyncExitStack,
        reads: ViewReads,
        others: NotOwner,
        request: ForwardableRequest,
    ) -> tuple[Answer, AsyncGenerator[bytes]]:
        """The stream of another instance, open until `stack` ends. Raises Unavailable."""
        reads.counts.forwarded += 1
        return await self._asker.begin_stream(
            stack, others.partition, others.members, request.target, request.headers
        )

    def _rounds(self, request: ForwardableRequest) -> Rounds[Holder]:
        constants = self._context.constants
        return Rounds(
            constants.wait_timeout,
            request.is_forwarded,
            self._context.telemetry.peer_counts,
            constants.forward_timeout,
        )

    async def _forward(
        self,
        query: KeyQuery,
        others: NotOwner,
        rounds: Rounds[Holder],
        request: ForwardableRequest,
    ) -> Answer:
        """The answer of the next holder; a problem answer if it sends none."""
        query.reads.counts.forwarded += 1
        turn = rounds.turn(others.partition, others.members)
        assert turn.holder is not None
        try:
            answer = None
            if (read := self._plain_read(query, others.partition, request)) is not None:
                answer = await read(turn.holder, turn.others_left)
            answer = answer or await self._asker.ask(
                turn, request.method, request.target, request.headers
            )
        except Unavailable as unavailable:
            return problem_answer(unavailable)
        if answer.status == 503:
            code = code_of(answer)
            rounds.refused(code)
            answer.is_final = code in BOUND_CODES
        return answer

    def _plain_read(
        self, query: KeyQuery, partition: int, request: ForwardableRequest
    ) -> Callable[[Member, bool], Awaitable[Answer | None]] | None:
        """A function that asks an instance, together with other reads; None if the request is not a
        read that can be coalesced."""
        key = query.key
        is_plain_get = request.method == "GET" and not request.query and query.options is PLAIN
        if (
            key is None
            or not is_plain_get
            or any(name in _UNSHARED_HEADERS for name, _ in request.headers)
        ):
            return None
        token = None
        if (authorization := AUTHORIZATION.get()) is not None:
            scheme, _, token = authorization.partition(b" ")
            if scheme.lower() != b"bearer" or not is_token(token):
                return None
        read = key_read(query.reads, partition, key, self._context.group.versions)
        return partial(self.coalesced.ask, read=read, token=token)


async def _repeat_read(
    read: Callable[[], Awaitable[_T]], rounds: Rounds[Holder], request: ForwardableRequest
) -> _T:
    result: _T
    refused: Unavailable | None = None
    is_forwarded = request.is_forwarded

    async def attempt() -> bool:
        nonlocal result, refused
        try:
            result, refused = await read(), None
            return False
        except NotOwner as others:
            if not is_forwarded:
                raise
            refused = others.why
        except Unavailable as unavailable:
            refused = unavailable
        rounds.refused(refused.code)
        return not isinstance(refused, NonRetryable)

    await rounds.repeat(attempt)
    if refused is not None:
        raise refused
    return result


def _redirect(others: NotOwner, request: ForwardableRequest) -> Answer:
    origin = others.member.origin.encode()
    return Answer(307, [(b"location", origin + request.target)], b"")
