"""Point reads that this instance forwards, coalesced like those of the proxy.

Reads for an instance that is being asked wait until it answers, and are then sent in one request
(`backend/wire/point_batch.py`). No timer delays a read. The instance answers each read as if it
were sent separately, or not at all: those are forwarded separately.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextvars import Context

from backend.cluster.peer_failures import PeerRefused
from backend.queries.retry import Asker
from backend.security.token_cache import digest_of
from backend.telemetry.rate_limited_log import RateLimitedLog
from backend.wire.answer import Answer
from backend.wire.plain_requests import is_plain
from backend.wire.point_batch import (
    ALONE,
    DIGEST_BYTES,
    Reads,
    decode_paths,
    encode_reads,
    headers_of_heads,
)
from model.problems import Unavailable
from model.topology import Member
from model.view_versions import ViewVersions, public_name
from model.views import View

MAX_READS = 512
"""The maximum number of reads in a request."""
MAX_BYTES = 128 << 10
"""The maximum size in bytes of the paths in a request and of the digests of their tokens,
together."""
PAUSE_S = 5.0
"""How long reads for an instance are not coalesced after it has refused them: it has an older
version, or another secret or clock."""
SILENCE_S = 1.0
"""The same for an instance that does not answer."""
_OVERLOADED = (429, 503)

log = RateLimitedLog(logging.getLogger(__name__))

Found = Answer | Unavailable | None
"""Unavailable: the instance did not answer the request. None: it did not answer the read."""


def path_of(view: View, text: bytes, versions: ViewVersions) -> bytes | None:
    """The path of a key in this version of the view; None if an HTTP parser might refuse it, or
    read it differently. `text`: the key as it is in a URL; "" if a slash follows the key."""
    if not text:
        return None
    name = view.base
    if name in versions.with_versions:
        name = public_name(name, view.version)
    path = b"/views/%b/keys/%b" % (name.encode(), text)
    return path if is_plain(path) else None


class _Batch:
    """Reads that are sent together."""

    def __init__(self) -> None:
        self._bytes = 0
        self._paths: list[bytes] = []
        self._of: list[int] = []  # the number of the token of each read; 0: it has none
        self._tokens: dict[bytes, int] = {}
        self._futures: list[asyncio.Future[Found]] = []

    @property
    def count(self) -> int:
        return len(self._paths)

    def add(self, path: bytes, token: bytes | None) -> asyncio.Future[Found] | None:
        """Adds a read, and returns the future of its answer; None if there is no room."""
        number = 0 if token is None else self._tokens.get(token)
        size = self._bytes + len(path) + (DIGEST_BYTES if number is None else 0)
        if self.count >= MAX_READS or size > MAX_BYTES:
            return None
        if number is None:
            assert token is not None
            number = self._tokens[token] = len(self._tokens) + 1
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._bytes = size
        self._paths.append(path)
        self._of.append(number)
        self._futures.append(future)
        return future

    def body(self) -> bytes:
        """The body of the request."""
        digests = list(map(digest_of, self._tokens))
        return encode_reads(digests, [Reads(None, self._paths, self._of)])

    def answer(self, answers: Sequence[Found]) -> None:
        """Answers all reads."""
        for future, answer in zip(self._futures, answers, strict=True):
            if not future.done():  # else the client has disconnected
                future.set_result(answer)


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
        self, member: Member, others_left: bool, path: bytes, token: bytes | None
    ) -> Answer | None:
        """The answer of an instance to a plain GET of this raw path; None if it must be forwarded
        separately. Raises Unavailable if the instance does not answer, and others are left to
        ask."""
        asked = self.enqueue(member, path, token)
        found = None if asked is None else await asked
        if isinstance(found, Unavailable):
            if others_left:
                raise found
            return None
        return found

    def enqueue(
        self, member: Member, path: bytes, token: bytes | None
    ) -> asyncio.Future[Found] | None:
        """Asks an instance for a plain GET of this raw path, together with other reads; None if it
        must be forwarded separately."""
        if (paused_until := self._paused_until.get(member)) is not None:
            if time.monotonic() < paused_until:
                return None
            del self._paused_until[member]
        batch = self._pending.setdefault(member, _Batch())
        future = batch.add(path, token)
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
            batch.answer([None] * batch.count)
        self._pending.clear()
        self._senders.clear()

    async def _send_all(self, member: Member) -> None:
        try:
            while (batch := self._pending.pop(member, None)) is not None:
                await self._send(member, batch)
        finally:
            del self._senders[member]
            if (batch := self._pending.pop(member, None)) is not None:
                batch.answer([None] * batch.count)

    async def _send(self, member: Member, batch: _Batch) -> None:
        found: list[Found] = [None] * batch.count
        body = batch.body()
        try:
            answer = await self._asker.ask_for_reads(member, body)
            if answer.status == 200:
                found = _answers(answer.body, batch.count)
            elif answer.status not in _OVERLOADED:
                self._pause(member, f"answers {answer.status}")
        except PeerRefused:
            self._pause(member, "refuses them")
        except Unavailable as unavailable:
            # each read has waited already, so it does not wait for another common request
            self._paused_until[member] = time.monotonic() + SILENCE_S
            found = [unavailable] * batch.count
        except ValueError as error:
            self._pause(member, f"sends a malformed answer: {error}")
        finally:
            batch.answer(found)

    def _pause(self, member: Member, why: str) -> None:
        self._paused_until[member] = time.monotonic() + PAUSE_S
        log.warn(member.id, f"reads for {member.id} are not sent together, because it {why}")


def _answers(body: bytes, count: int) -> list[Found]:
    """The answer to each read. Raises ValueError if the body is malformed."""
    heads, items = decode_paths(body, count)
    parsed = headers_of_heads(heads)
    found: list[Found] = []
    for head, etag, content in items:
        if head == ALONE:
            found.append(None)
            continue
        status, headers = parsed[head]
        # each answer gets further headers of its own
        headers = [*headers, (b"etag", etag)] if etag else headers.copy()
        found.append(Answer(status, headers, content))
    return found
