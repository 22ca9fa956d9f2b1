"""Asking the instance that is active for a key: one hop, never two.

A forwarded request is marked; whoever gets a marked one answers itself or says 503, so two
instances with different maps cannot send a request to and fro.

Streams keep their connection for as long as their clients stay, so they have a pool of their own.
What is asked and answered at once never waits for one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
from yarl import URL

from backend.wire.answer import Answer, Header
from model.problems import Unavailable
from model.topology import Member

MARK = b"queryable-forwarded"

# of the request: what the owner needs to answer as if it had been asked
_REQUEST_HEADERS = frozenset(
    (b"accept", b"authorization", b"content-type", b"if-none-match", b"last-event-id")
)
# of the answer: all but what belongs to the connection, or is this instance's own to say
_DROPPED = frozenset(
    b"connection content-length date keep-alive server topology-epoch transfer-encoding".split()
)


MOST_ANSWER = 128 << 20  # bytes of another instance's answer
_STREAM_BUFFER = 16 << 10  # bytes that are read ahead of a stream, times two; flow control follows


class PeerClient:
    """HTTP clients for all peers. Made and used in the event loop."""

    def __init__(
        self, instance_id: str, timeout: float, connections: int = 256, streams: int = 256
    ) -> None:
        """`timeout`: s for an answer, or for a stream to begin. `connections` (0: no bound) are for
        answers, `streams` for streams."""
        self._mark = instance_id
        self._seconds = timeout
        self._timeout = _timeout(timeout, timeout)
        self._session = _session(connections)
        self._streams = _session(max(streams, 1), read_bufsize=_STREAM_BUFFER)

    async def forward(
        self,
        member: Member,
        method: str,
        target: bytes,
        headers: list[Header],
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Answer:
        """The owner's answer, status and all; Unavailable if it cannot be had in time (the
        setting's), or if the owner is silent for `timeout` s.

        `target` is the raw path with its query, passed on byte for byte.
        """
        url, passed = self._request(member, target, headers)
        try:
            async with self._session.request(
                method,
                url,
                headers=passed,
                data=body or None,
                allow_redirects=False,
                timeout=self._timeout if timeout is None else _timeout(self._seconds, timeout),
            ) as response:
                content = await _content(response)
                return Answer(
                    response.status,
                    [
                        (name.lower(), value)
                        for name, value in response.raw_headers
                        if name.lower() not in _DROPPED
                        # what a HEAD's answer says of a body that it does not have
                        or (method == "HEAD" and name.lower() == b"content-length")
                    ],
                    content,
                )
        except (TimeoutError, aiohttp.ClientError, OSError, _TooLargeError) as e:
            raise _unreachable(member, e) from e

    @asynccontextmanager
    async def stream(
        self, member: Member, target: bytes, headers: list[Header], timeout: float | None = None
    ) -> AsyncIterator[tuple[Answer, AsyncGenerator[bytes]]]:
        """The owner's answer to a GET without its body, and the body as it comes, for as long as
        it comes; Unavailable if the answer does not begin within `timeout` s (None: the
        setting's)."""
        url, passed = self._request(member, target, headers)
        # silence is broken by the stream's own keep-alives
        endless = aiohttp.ClientTimeout(total=None, sock_connect=0.5, sock_read=60)
        try:
            # with the wait for a connection
            async with asyncio.timeout(self._seconds if timeout is None else timeout):
                response = await self._streams.get(
                    url, headers=passed, allow_redirects=False, timeout=endless
                )
        except (TimeoutError, aiohttp.ClientError, OSError) as e:
            raise _unreachable(member, e) from e
        async with response:
            kept = [(n.lower(), v) for n, v in response.raw_headers if n.lower() not in _DROPPED]
            yield Answer(response.status, kept, b""), _chunks(response)

    def _request(
        self, member: Member, target: bytes, headers: list[Header]
    ) -> tuple[URL, dict[str, str]]:
        url = URL(f"http://{member.host}:{member.port}{target.decode('latin-1')}", encoded=True)
        passed = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in _REQUEST_HEADERS
        }
        return url, {**passed, MARK.decode(): self._mark}

    async def close(self) -> None:
        await self._session.close()
        await self._streams.close()


def _session(connections: int, **more: Any) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=30),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        **more,
    )


def _timeout(seconds: float, silence: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=seconds, connect=silence, sock_connect=min(silence, 0.5), sock_read=silence
    )


class _TooLargeError(Exception):
    """An answer of more than MOST_ANSWER bytes."""


async def _content(response: aiohttp.ClientResponse) -> bytes:
    if response.content_length is not None:
        if response.content_length > MOST_ANSWER and response.method != "HEAD":
            raise _TooLargeError
        return await response.read()
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MOST_ANSWER:
            response.close()
            raise _TooLargeError
    return b"".join(parts)


async def _chunks(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """An owner that dies ends the stream, like one that stops."""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async for chunk in response.content.iter_any():
            yield chunk


def _unreachable(member: Member, error: Exception) -> Unavailable:
    return Unavailable(
        "owner-unreachable",
        f"Instance {member.id} holds the key's partition and does not answer: "
        f"{type(error).__name__}.",
        instance=member.id,
    )
