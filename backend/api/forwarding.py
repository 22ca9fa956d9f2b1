"""Asking the instance that is active for a key: one hop, never two.

A forwarded request is marked; whoever gets a marked one answers itself or says 503, so two
instances with different maps cannot send a request to and fro.
"""

from __future__ import annotations

import aiohttp
from yarl import URL

from backend.api.answer import Answer, Header
from backend.core.errors import Unavailable
from backend.core.topology import Member

MARK = b"queryable-forwarded"

# of the request: what the owner needs to answer as if it had been asked
_REQUEST_HEADERS = frozenset(
    (b"accept", b"authorization", b"content-type", b"if-none-match", b"last-event-id")
)
# of the answer: all but what belongs to the connection, or is this instance's own to say
_DROPPED = frozenset(
    b"connection content-length date keep-alive server topology-epoch transfer-encoding".split()
)


class Forwarder:
    """One HTTP client for all peers. Made and used in the event loop."""

    def __init__(self, instance_id: str, timeout: float, connections: int = 256) -> None:
        self._mark = instance_id
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=min(timeout, 0.5)),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def forward(
        self, member: Member, method: str, target: bytes, headers: list[Header], body: bytes = b""
    ) -> Answer:
        """The owner's answer, status and all; Unavailable if it cannot be had in time.

        `target` is the raw path with its query, passed on byte for byte.
        """
        url = URL(f"http://{member.host}:{member.port}{target.decode('latin-1')}", encoded=True)
        passed = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in _REQUEST_HEADERS
        }
        passed[MARK.decode()] = self._mark
        try:
            async with self._session.request(
                method, url, headers=passed, data=body or None, allow_redirects=False
            ) as response:
                content = await response.read()
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
        except (TimeoutError, aiohttp.ClientError, OSError) as e:
            raise Unavailable(
                "owner-unreachable",
                f"Instance {member.id} holds the key's partition and does not answer: "
                f"{type(e).__name__}.",
                instance=member.id,
            ) from e

    async def close(self) -> None:
        await self._session.close()
