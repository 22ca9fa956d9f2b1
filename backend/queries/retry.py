"""The rule by which an instance asks other instances, the same for every query.

- The holders of a partition (its active and standbys) are asked one after the other, at most five
  (`QueryContext.others`): the active first; last, the holders that seem dead or have just
  failed. The asking instance may be one of the holders (None).
- A holder that is silent for `WHILE_OTHERS_ARE_LEFT` is skipped while another one is left to ask.
  The last one has `Constants.forward_timeout`. A holder that does not answer is suspected for a
  while: other queries ask it last. A holder that could not be asked, because no connection to it
  was free, is skipped, but not suspected.
- All holders that hang share one deadline: `Constants.forward_timeout` after the query began. It is
  later if `WHILE_OTHERS_ARE_LEFT` for each of five holders takes longer, or while the query waits
  after a refusal. nginx relies on this deadline: an instance that waits for other instances must
  not look as if it hung, too (`proxy/balance.lua`).
- A holder answers or refuses within `WHILE_OTHERS_ARE_LEFT`: a scan answers slice by slice, and a
  forwarded request does not wait for long.
- Once all holders have refused, they are asked again until `Constants.wait_timeout` after the
  query began (for `not-up-to-offset` five times as long: a record that was just written will
  arrive). A refusal that neither waiting nor another instance can change ends the query
  immediately.
- The error is then the last refusal.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Sequence
from contextlib import AsyncExitStack
from typing import Generic, NamedTuple, TypeVar

from backend.cluster.group_state import MAX_OTHERS
from backend.cluster.peer_client import PeerClient
from backend.cluster.peer_failures import PeerNotAsked, PeerRefused
from backend.instance.context import QueryContext
from backend.telemetry.peer_counts import PeerCounts
from backend.wire.answer import MALFORMED, Answer, Header, code_of
from backend.wire.point_batch import READS
from model.problems import RETRY_ELSEWHERE_NO, Unavailable
from model.topology import Member

WHILE_OTHERS_ARE_LEFT = 0.4  # s
_MARKED_WAIT = WHILE_OTHERS_ARE_LEFT / 2  # s; the asker goes on asking
_LEAST = WHILE_OTHERS_ARE_LEFT / 2  # s; a holder that would have less time to answer is not asked
_STEP = 0.02  # s between two rounds
_MORE_PATIENCE = {"not-up-to-offset": 5}

Stream = tuple[Answer, AsyncGenerator[bytes]]
"""An answer without its body, and the body as it comes."""

Holder = Member | None
"""None: this instance itself."""

_H = TypeVar("_H", bound=Hashable)


class Turn(NamedTuple, Generic[_H]):
    """The holder to ask now, and whether another one is left to ask after it. `ends`: when the time
    of the query is over (s, monotonic)."""

    holder: _H
    others_left: bool
    ends: float = math.inf

    @property
    def left(self) -> float:
        """The time that the query has left (s); always a little, because 0 would mean no limit."""
        return max(self.ends - time.monotonic(), 0.001)


class Rounds(Generic[_H]):
    """The rounds of one query: each round asks one holder of every partition that is still open."""

    def __init__(
        self,
        wait: float,
        marked: bool = False,
        counts: PeerCounts | None = None,
        limit: float = math.inf,
    ) -> None:
        """`wait`: how long (s) a query waits. `marked`: another instance asks, and retries.
        `counts`: counts the rounds after the first one. `limit`: s for holders that hang."""
        self._counts = counts or PeerCounts()
        self._began = time.monotonic()
        self._wait = wait
        self._limit = max(limit, MAX_OTHERS * WHILE_OTHERS_ARE_LEFT)
        self._marked = marked
        self._patience = 1
        self._tried: dict[int, set[_H]] = {}
        self._turns: dict[int, Turn[_H]] = {}
        self._all_asked: set[int] = set()  # partitions whose holders were all asked once

    def turn(self, partition: int, holders: Sequence[_H]) -> Turn[_H]:
        """The next holder of a partition to ask. Within a round, it is always the same one. After
        the last holder, the first one is next again."""
        if partition in self._turns:
            return self._turns[partition]
        tried = self._tried.setdefault(partition, set())
        if tried.issuperset(holders):
            tried.clear()
        holder = next(holder for holder in holders if holder not in tried)
        tried.add(holder)
        turn = Turn(holder, not tried.issuperset(holders), self._ends)
        self._turns[partition] = turn
        if not turn.others_left:
            self._all_asked.add(partition)
        return turn

    @property
    def _ends(self) -> float:
        waits = self._patience * self._wait + WHILE_OTHERS_ARE_LEFT
        return self._began + max(self._limit, waits)

    def refused(self, code: str) -> None:
        """Note a refusal with this code: some codes are worth a longer wait."""
        self._patience = max(self._patience, _MORE_PATIENCE.get(code, 1))

    async def repeat(self, attempt: Callable[[], Awaitable[bool]]) -> None:
        """The retry loop of every query: calls `attempt` once per round while it returns True (some
        of the query is still open), until the wait is over."""
        while await attempt() and await self.again():
            pass

    async def again(self) -> bool:
        """Wait for the next round, after a round in which something stayed open. Returns True at
        once while a holder has not been asked yet, then after a pause, until the wait is over.
        Returns False if there is no time for another round."""
        some_not_asked = not self._all_asked.issuperset(self._turns)
        self._turns.clear()
        if time.monotonic() > self._ends - _LEAST:
            return False
        if some_not_asked:
            self._counts.retry_rounds += 1
            return True
        wait = self._patience * self._wait
        if time.monotonic() - self._began >= (min(wait, _MARKED_WAIT) if self._marked else wait):
            return False
        await asyncio.sleep(_STEP)
        self._counts.retry_rounds += 1
        return True


def may_change(answer: Answer) -> bool:
    """Whether waiting, or another instance, may give another answer than this one."""
    return answer.status == 503 and RETRY_ELSEWHERE_NO not in answer.headers


OLDER_VERSION = "older-version"
"""The problem code if an instance of an older version does not know a part of a request or of its
answer."""


def knows_less(answer: Answer) -> bool:
    """Whether an instance does not know a part of the request, such as a condition: its version is
    older."""
    return answer.status == 400 and code_of(answer) == MALFORMED


def _timeout(others_left: bool) -> float | None:
    """How long one instance may be silent (s); None: the configured time-out."""
    return WHILE_OTHERS_ARE_LEFT if others_left else None


class Asker:
    """Asks other instances, and records which of them do not answer."""

    def __init__(self, context: QueryContext, peer_client: PeerClient) -> None:
        self._context = context
        self._peer_client = peer_client

    def rounds(self) -> Rounds[Holder]:
        """The rounds of one query."""
        context = self._context
        constants = context.constants
        return Rounds(
            constants.wait_timeout,
            counts=context.telemetry.peer_counts,
            limit=constants.forward_timeout,
        )

    async def ask(
        self,
        turn: Turn[Holder],
        method: str,
        target: bytes,
        headers: list[Header],
        body: bytes = b"",
    ) -> Answer:
        """The answer of another instance, of any status. Raises Unavailable if it is silent for too
        long, or refuses internal requests."""
        member = turn.holder
        assert member is not None
        timeout = _timeout(turn.others_left)
        try:
            return await self._peer_client.forward(
                member, method, target, headers, body, timeout=timeout, within=turn.left
            )
        except PeerNotAsked:
            raise
        except Unavailable:
            self._context.group.peers.failed(member.id)
            raise

    async def ask_for_reads(self, member: Member, body: bytes) -> Answer:
        """As `ask`, for coalesced reads. An instance that refuses them can be asked in another way,
        so it has not failed."""
        try:
            return await self._peer_client.post(member, READS, body, WHILE_OTHERS_ARE_LEFT)
        except PeerRefused:
            raise
        except Unavailable:
            self._context.group.peers.failed(member.id)
            raise

    async def begin_stream(
        self,
        stack: AsyncExitStack,
        partition: int,
        members: Sequence[Member],
        target: bytes,
        headers: list[Header],
    ) -> Stream:
        """The stream of the first holder that begins one, open until `stack` ends; else the last
        refusal, as an answer or Unavailable."""
        rounds = self.rounds()
        begun: Stream | None = None
        unavailable: Unavailable | None = None

        async def attempt() -> bool:
            nonlocal begun, unavailable
            await stack.aclose()  # ends the refusal of the previous holder
            begun = unavailable = None
            turn = rounds.turn(partition, members)
            member, timeout = turn.holder, _timeout(turn.others_left)
            assert member is not None
            try:
                begun = await stack.enter_async_context(
                    self._peer_client.stream(member, target, headers, timeout, turn.left)
                )
            except Unavailable as e:
                self._context.group.peers.failed(member.id)
                unavailable = e
                return True
            return may_change(begun[0])

        await rounds.repeat(attempt)
        if unavailable is not None:
            raise unavailable
        assert begun is not None
        return begun
