"""Point reads that this instance forwards, coalesced like those of the proxy.

Reads for an instance that is being asked wait until it answers, and are then sent in one request
(`backend/wire/point_batch.py`). No timer delays a read. The instance answers each read as if it
were sent separately, or not at all: those are forwarded separately.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import Context

from backend.cluster.peer_failures import PeerRefused
from backend.http.forwarding.received_keys import KeyRead, answers_of
from backend.queries.point import ViewReads
from backend.queries.retry import Asker
from backend.security.token_cache import digest_of
from backend.telemetry.rate_limited_log import RateLimitedLog
from backend.wire.answer import Answer
from backend.wire.point_batch import DIGEST_BYTES, Reads, decode_keys, encode_reads
from model.problems import Unavailable
from model.records import ENTRY
from model.topology import Member

MAX_READS = 512
"""The maximum number of reads in a request."""
MAX_BYTES = 128 << 10
"""The maximum size in bytes of a request."""
_READ_BYTES = len(b",131072,512")
"""What a read adds to a request at most, except its key: the key's length, and its token's
number."""
PAUSE_S = 5.0
"""How long reads for an instance are not coalesced after it has refused them: it has an older
version, or another secret or clock."""
SILENCE_S = 1.0
"""The same for an instance that does not answer."""
_OVERLOADED = (429, 503)

log = RateLimitedLog(logging.getLogger(__name__))

Outcome = Answer | Unavailable | None
"""Unavailable: the instance did not answer the request. None: it did not answer the read."""


class _Group:
    """Reads of keys in one partition. `tokens`: the number of the token of each; 0: it has none."""

    def __init__(self, reads: ViewReads) -> None:
        self.reads = reads
        self.keys: list[bytes] = []
        self.tokens: list[int] = []
        self.futures: list[asyncio.Future[Outcome]] = []


class _Batch:
    """Reads that are sent together."""

    def __init__(self) -> None:
        self.count = 0
        self._bytes = 0
        self._groups: dict[bytes, _Group] = {}  # by the words that name the partition
        self._tokens: dict[bytes, int] = {}

    def add(self, read: KeyRead, token: bytes | None) -> asyncio.Future[Outcome] | None:
        """Adds a read, and returns the future of its answer; None if there is no room."""
        group = self._groups.get(read.words)
        number = 0 if token is None else self._tokens.get(token)
        size = self._bytes + len(ENTRY) + len(read.key) + _READ_BYTES
        size += 0 if group is not None else len(read.words) + len(b"partition  512 \n")
        size += DIGEST_BYTES + 1 if number is None else 0
        if self.count >= MAX_READS or size > MAX_BYTES:
            return None
        if number is None:
            assert token is not None
            number = self._tokens[token] = len(self._tokens) + 1
        if group is None:
            group = self._groups[read.words] = _Group(read.reads)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._bytes = size
        self.count += 1
        group.keys.append(read.key)
        group.tokens.append(number)
        group.futures.append(future)
        return future

    def body(self) -> bytes:
        """The body of the request."""
        groups = [
            Reads(words, [ENTRY + key for key in group.keys], group.tokens)
            for words, group in self._groups.items()
        ]
        return encode_reads(list(map(digest_of, self._tokens)), groups)

    def take(self, response: bytes) -> None:
        """Answers all reads from the response to the request. Raises ValueError if it is malformed;
        then no read is answered."""
        groups = list(self._groups.values())
        decoded = decode_keys(response, [len(group.keys) for group in groups])
        answers = [
            answers_of(group.reads, group.keys, answer)
            for group, answer in zip(groups, decoded, strict=True)
        ]
        for group, group_answers in zip(groups, answers, strict=True):
            for future, answer in zip(group.futures, group_answers, strict=True):
                _answer(future, answer)

    def answer_rest(self, outcome: Unavailable | None) -> None:
        """Answers all reads that have no answer yet."""
        for group in self._groups.values():
            for future in group.futures:
                _answer(future, outcome)


def _answer(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():  # otherwise the client has disconnected
        future.set_result(outcome)


class CoalescedForwards:
    """Sends the reads. Each instance that is being asked has a task, which ends when no reads wait
    for that instance. Used in the event loop."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        # not by id: a restarted instance may have another address
        self._pending: dict[Member, _Batch] = {}
        self._senders: dict[Member, asyncio.Task[None]] = {}
        self._paused_until: dict[Member, float] = {}

    async def ask(
        self, member: Member, others_left: bool, read: KeyRead, token: bytes | None
    ) -> Answer | None:
        """The answer of an instance to a plain read of a key; None if it must be forwarded
        separately. Raises Unavailable if the instance does not answer, and others are left to
        ask."""
        asked = self.enqueue(member, read, token)
        outcome = None if asked is None else await asked
        if isinstance(outcome, Unavailable):
            if others_left:
                raise outcome
            return None
        return outcome

    def enqueue(
        self, member: Member, read: KeyRead, token: bytes | None
    ) -> asyncio.Future[Outcome] | None:
        """Asks an instance for a key, together with other reads; None if the read must be forwarded
        separately."""
        if (paused_until := self._paused_until.get(member)) is not None:
            if time.monotonic() < paused_until:
                return None
            del self._paused_until[member]
        batch = self._pending.setdefault(member, _Batch())
        future = batch.add(read, token)
        if member not in self._senders:
            # an empty context: a token and an id in the logs belong to the request of one client
            self._senders[member] = asyncio.create_task(
                self._send_all(member), name=f"reads for {member.id}", context=Context()
            )
        return future

    async def close(self) -> None:
        """Ends the tasks; waiting reads get no answer."""
        senders = list(self._senders.values())
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        for batch in self._pending.values():  # batches of tasks that had not begun
            batch.answer_rest(None)
        self._pending.clear()
        self._senders.clear()

    async def _send_all(self, member: Member) -> None:
        try:
            while (batch := self._pending.pop(member, None)) is not None:
                await self._send(member, batch)
        finally:
            del self._senders[member]
            if (batch := self._pending.pop(member, None)) is not None:
                batch.answer_rest(None)

    async def _send(self, member: Member, batch: _Batch) -> None:
        silent: Unavailable | None = None
        try:
            answer = await self._asker.ask_for_reads(member, batch.body())
            if answer.status == 200:
                batch.take(answer.body)
            elif answer.status not in _OVERLOADED:
                self._pause(member, f"answers {answer.status}")
        except PeerRefused:
            self._pause(member, "refuses them")
        except Unavailable as unavailable:
            # each read has waited already, so it does not wait for another common request
            self._paused_until[member] = time.monotonic() + SILENCE_S
            silent = unavailable
        except ValueError as error:
            self._pause(member, f"sends a malformed answer: {error}")
        finally:
            batch.answer_rest(silent)

    def _pause(self, member: Member, why: str) -> None:
        self._paused_until[member] = time.monotonic() + PAUSE_S
        log.warn(member.id, f"reads for {member.id} are not sent together, because it {why}")
