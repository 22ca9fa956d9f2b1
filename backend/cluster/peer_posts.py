"""The requests that instances send each other all the time: coalesced reads and heartbeats.

Each kind has its own connection to each instance, so a request of one kind does not wait for one of
the other. Each kind has one request at a time, and every request may be repeated. With a
cluster secret, requests are signed, and their answers verified.
"""

from __future__ import annotations

import asyncio
import ssl

from backend.cluster.peer_connection import ClosedBeforeAnswerError, PeerConnection, connect
from backend.cluster.peer_failures import NOT_REACHED, check_sender, unreachable
from backend.security.certificates import Certificates
from backend.security.signatures import HEADER, SignedRequest, Signer
from backend.telemetry.peer_counts import PeerCounts
from backend.wire.answer import MARK, Answer
from model.topology import HTTPS, Member

CONNECT_SECONDS = 0.5
"""The time limit for a new connection with its TLS handshake. After this time, the next replica is
tried."""


class PeerPosts:
    """Sends these requests. May be created in any thread; used in the event loop."""

    def __init__(
        self,
        instance_id: str,
        timeout: float,
        signer: Signer | None = None,
        certificates: Certificates | None = None,
        counts: PeerCounts | None = None,
    ) -> None:
        """`timeout`: s for a complete answer. `signer`: None without a cluster secret."""
        self._mark = instance_id.encode()
        self._seconds = timeout
        self._signer = signer
        self._certificates = certificates or Certificates()
        self._counts = counts or PeerCounts()
        self._idle: dict[tuple[str, bytes], PeerConnection] = {}
        self._open: set[PeerConnection] = set()

    async def post(
        self, member: Member, target: bytes, body: bytes, timeout: float | None = None
    ) -> Answer:
        """The complete answer to a POST. Raises Unavailable after the configured timeout, or if the
        instance sends nothing for `timeout` s."""
        loop, key = asyncio.get_running_loop(), (member.origin, target)
        silence, ends_at = timeout or self._seconds, loop.time() + self._seconds
        try:
            connection = self._take_idle(member, key)
            if connection is not None:
                try:
                    return await self._ask(connection, member, key, body, silence, ends_at)
                except ClosedBeforeAnswerError:
                    pass  # idle connections are closed; this is not a failure
            connection = await self._connect(member, silence)
            return await self._ask(connection, member, key, body, silence, ends_at)
        except NOT_REACHED as error:
            self._counts.ended(target, None)
            raise unreachable(member, error) from error

    async def close(self) -> None:
        for connection in tuple(self._open):
            connection.abort()

    def _tls(self, member: Member) -> ssl.SSLContext | None:
        return self._certificates.peers() if member.scheme == HTTPS else None

    def _take_idle(self, member: Member, key: tuple[str, bytes]) -> PeerConnection | None:
        """An open connection that is idle; None if there is none. A connection that was opened with
        other certificates is closed."""
        connection = self._idle.pop(key, None)
        if connection is None or not connection.is_open:
            return None
        if connection.tls is not self._tls(member):
            connection.close()
            return None
        return connection

    async def _connect(self, member: Member, silence: float) -> PeerConnection:
        async with asyncio.timeout(min(silence, CONNECT_SECONDS)):
            connection = await connect(member, self._tls(member), self._forget)
        if connection.is_open:
            self._open.add(connection)
        return connection

    def _forget(self, connection: PeerConnection) -> None:
        self._open.discard(connection)
        # no later request would remove it if the instance is gone
        self._idle = {key: idle for key, idle in self._idle.items() if idle is not connection}

    async def _ask(
        self,
        connection: PeerConnection,
        member: Member,
        key: tuple[str, bytes],
        body: bytes,
        silence: float,
        ends_at: float,
    ) -> Answer:
        request, signed = self._request(member, key[1], body)
        status, headers, content = await connection.post(request, silence, ends_at)
        if connection.is_open and key not in self._idle:
            self._idle[key] = connection
        else:
            connection.close()
        self._counts.ended(key[1], status)
        check_sender(member, signed, status, headers, content)
        return Answer(status, headers, content)

    def _request(
        self, member: Member, target: bytes, body: bytes
    ) -> tuple[bytes, SignedRequest | None]:
        """The bytes that `backend/wire/plain_requests.py` recognises without a parser. Each request
        has its own signature, because an instance accepts a signature only once."""
        signed = None
        signature = b""
        if self._signer is not None:
            signed = self._signer.sign("POST", target, member.id, body)
            signature = b"%b: %b\r\n" % (HEADER, signed.header)
        host = member.origin.partition("://")[2].encode()
        return (
            b"POST %b HTTP/1.1\r\nHost: %b\r\n%b: %b\r\n%bContent-Length: %d\r\n\r\n%b"
            % (target, host, MARK, self._mark, signature, len(body), body)
        ), signed
