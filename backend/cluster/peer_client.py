"""The HTTP client for other instances. Requests are forwarded at most once.

Forwarded requests are marked. An instance answers a marked request itself or with 503, so that two
instances with different topologies cannot send a request back and forth.

Streams keep their connection as long as their clients stay, so they have their own pool. Other
requests never wait for a stream's connection. Requests to one instance use only a part of their
pool, so requests to other instances do not wait for an instance that hangs.

With a cluster secret, requests for internal routes are signed here, and their answers verified.
Each request says for which client it is (`backend/security/client_claims.py`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cached_property
from typing import Any

import aiohttp
from yarl import URL

from backend.cluster.peer_connection import MAX_ANSWER_BYTES
from backend.cluster.peer_failures import NOT_REACHED, PeerNotAsked, check_sender, unreachable
from backend.cluster.peer_posts import CONNECT_SECONDS, PeerPosts
from backend.security.authorization import passed_on
from backend.security.certificates import Certificates
from backend.security.client_claims import claim, claimed
from backend.security.signatures import SignedRequest, Signer
from backend.telemetry.peer_counts import PeerCounts
from backend.telemetry.tracing import traced
from backend.wire.answer import MARK, Answer, Header
from model.problems import Unavailable
from model.topology import HTTPS, Member

_INTERNAL = b"/internal/"

# request headers that affect the answer; `Authorization` is passed on with every request
_FORWARDED_HEADERS = frozenset(
    b"accept content-type if-none-match last-event-id queryable-unreadable tracestate view-push "
    b"view-version".split()
)
# response headers that belong to the connection, or that this instance sets itself
_OMITTED_HEADERS = frozenset(
    b"connection content-length date keep-alive server topology-epoch transfer-encoding "
    b"x-content-type-options".split()
)


_ERRORS = (*NOT_REACHED, aiohttp.ClientError)

# headers that aiohttp would add to requests without them
_AUTO_HEADERS = ("accept", "accept-encoding", "content-type", "user-agent")

_STREAM_BUFFER = 16 << 10  # bytes of read-ahead per stream, times two; then flow control stops it


class PeerClient:
    """HTTP clients for all peers. Created anywhere, used in the event loop."""

    def __init__(
        self,
        instance_id: str,
        timeout: float,
        signer: Signer | None = None,
        connections: int = 256,
        streams: int = 256,
        certificates: Certificates | None = None,
        counts: PeerCounts | None = None,
    ) -> None:
        """`timeout`: s for an answer, or for the start of a stream. `signer`: None without a
        cluster secret. `connections` (0: unlimited): the pool for requests; one instance gets a
        quarter of it at most. `streams`: the pool for streams; at least as many as are open at
        once."""
        self._signer = signer
        self._claim = claim if signer is None else signer.claim
        self._certificates = certificates or Certificates()
        self._counts = counts or PeerCounts()
        self._mark = instance_id
        self._seconds = timeout
        self._posts = PeerPosts(instance_id, timeout, signer, self._certificates, self._counts)
        self._places = _Places(connections)
        self._max_connections = connections
        self._max_streams = max(streams, 1)
        self._open: list[aiohttp.ClientSession] = []

    @cached_property
    def _session(self) -> aiohttp.ClientSession:
        per_instance = self._places.per_instance
        return self._opened(self._max_connections, per_instance, skip_auto_headers=_AUTO_HEADERS)

    @cached_property
    def _streams(self) -> aiohttp.ClientSession:
        return self._opened(self._max_streams, read_bufsize=_STREAM_BUFFER)

    def _opened(
        self, connections: int, per_instance: int = 0, **options: Any
    ) -> aiohttp.ClientSession:
        """`per_instance`: how many of the connections one instance may have; 0: all."""
        connector = aiohttp.TCPConnector(
            limit=connections, limit_per_host=per_instance, keepalive_timeout=30
        )
        session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            **options,
        )
        self._open.append(session)
        return session

    async def forward(
        self,
        member: Member,
        method: str,
        target: bytes,
        headers: list[Header],
        body: bytes = b"",
        timeout: float | None = None,
        within: float | None = None,
    ) -> Answer:
        """The owner's complete answer. Raises Unavailable after the configured timeout, or after
        `within` s if that is less, or if the owner sends nothing for `timeout` s. PeerNotAsked if
        no connection becomes free in this time.

        `target`: the raw path with the query string, passed on unchanged.
        """
        url, forwarded = self._request(member, target, headers)
        is_internal = target.startswith(_INTERNAL)
        seconds = self._seconds if within is None else min(within, self._seconds)
        signed: SignedRequest | None = None
        if is_internal and self._signer is not None:
            signed = self._signer.sign(method, target, member.id, body)
            forwarded |= signed.headers
        with self._places.taken(member) as waits:
            try:
                async with self._session.request(
                    method,
                    url,
                    headers=forwarded,
                    data=body or None,
                    allow_redirects=False,
                    ssl=self._tls(member),
                    timeout=_timeout(seconds, seconds if timeout is None else timeout),
                ) as response:
                    content = await _read_content(response)
                    answer = Answer(response.status, _headers(response), content)
            except (*_ERRORS, _TooLargeError) as e:
                self._counts.ended(target, None)
                kind = PeerNotAsked if waits and _is_before_request(e) else Unavailable
                raise unreachable(member, e, kind) from e
        self._counts.ended(target, answer.status)
        if is_internal:
            check_sender(member, signed, answer.status, answer.headers, answer.body)
        return answer

    async def post(
        self, member: Member, target: bytes, body: bytes, timeout: float | None = None
    ) -> Answer:
        """As `forward`, for coalesced reads: see PeerPosts."""
        return await self._posts.post(member, target, body, timeout)

    @asynccontextmanager
    async def stream(
        self,
        member: Member,
        target: bytes,
        headers: list[Header],
        timeout: float | None = None,
        within: float | None = None,
    ) -> AsyncIterator[tuple[Answer, AsyncGenerator[bytes]]]:
        """The status and headers of the owner's answer to a GET, and the chunks of its body.

        Raises Unavailable if the answer does not begin within `timeout` s (None: the configured
        one), or within `within` s.
        """
        url, forwarded = self._request(member, target, headers)
        # streams send keep-alives, so silence means failure
        stream_timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=60
        )
        seconds = self._seconds if timeout is None else timeout
        try:
            # includes waiting for a connection
            async with asyncio.timeout(seconds if within is None else min(seconds, within)):
                response = await self._streams.get(
                    url,
                    headers=forwarded,
                    allow_redirects=False,
                    ssl=self._tls(member),
                    timeout=stream_timeout,
                )
        except _ERRORS as e:
            self._counts.ended(target, None)
            raise unreachable(member, e) from e
        self._counts.ended(target, response.status)
        async with response:
            yield Answer(response.status, _headers(response), b""), _chunks(response)

    def _request(
        self, member: Member, target: bytes, headers: list[Header]
    ) -> tuple[URL, dict[str, str]]:
        if b"#" in target:
            raise ValueError("a target has no fragment")  # URL would leave it out
        try:
            url = URL(member.origin + target.decode("latin-1"), encoded=True)
            if url.port is None:  # the property parses it
                raise ValueError("no port")
        except ValueError as e:  # the member has sent an invalid host
            self._counts.ended(target, None)
            raise unreachable(member, e) from e
        forwarded = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in (
                *filter(_is_forwarded, headers),
                *passed_on(),
                *claimed(self._claim),
                *traced(),
            )
        }
        return url, {**forwarded, MARK.decode(): self._mark}

    def _tls(self, member: Member) -> ssl.SSLContext | bool:
        """The latest TLS context. A connection that was opened with another is not used again."""
        return self._certificates.peers() if member.scheme == HTTPS else True

    async def close(self) -> None:
        await self._posts.close()
        for session in self._open:
            await session.close()


def _is_forwarded(header: Header) -> bool:
    return header[0] in _FORWARDED_HEADERS


class _Places:
    """Counts the requests in progress. Each of them has a connection, or waits for one."""

    def __init__(self, connections: int) -> None:
        """`connections`: for all instances; 0: unlimited."""
        self._connections = connections
        self.per_instance = max(connections // 4, 1) if connections else 0
        self._taken: Counter[str] = Counter()  # by origin

    @contextmanager
    def taken(self, member: Member) -> Iterator[bool]:
        """Counts a request, and yields whether it has to wait for a connection."""
        taken, origin, per_instance = self._taken, member.origin, self.per_instance
        waits = self._connections > 0 and (
            taken[origin] >= per_instance
            or sum(min(count, per_instance) for count in taken.values()) >= self._connections
        )
        taken[origin] += 1
        try:
            yield waits
        finally:
            taken[origin] -= 1
            if not taken[origin]:
                del taken[origin]


def _timeout(seconds: float, silence: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=seconds,
        connect=silence,
        sock_connect=min(silence, CONNECT_SECONDS),
        sock_read=silence,
    )


def _is_before_request(error: Exception) -> bool:
    """Whether the time ran out before there was a connection, or because there was none for long.
    An instance that is connected but silent causes a SocketTimeoutError."""
    return isinstance(error, TimeoutError) and not isinstance(error, aiohttp.SocketTimeoutError)


class _TooLargeError(Exception):
    """An answer with more than MAX_ANSWER_BYTES bytes."""


def _headers(response: aiohttp.ClientResponse) -> list[Header]:
    omitted = _OMITTED_HEADERS
    if response.method == "HEAD":
        # it is the length of the body that GET would return
        omitted = omitted - {b"content-length"}
    headers = [(name.lower(), value) for name, value in response.raw_headers]
    return [header for header in headers if header[0] not in omitted]


async def _read_content(response: aiohttp.ClientResponse) -> bytes:
    if response.content_length is not None:
        if response.content_length > MAX_ANSWER_BYTES and response.method != "HEAD":
            raise _TooLargeError
        return await response.read()
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            response.close()
            raise _TooLargeError
    return b"".join(chunks)


async def _chunks(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """The chunks of a body. The stream ends if the owner stops or dies."""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async for chunk in response.content.iter_any():
            yield chunk
