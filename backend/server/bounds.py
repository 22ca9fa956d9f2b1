"""Bounds on what all connections of an instance use in total.

While the total is below its bound, one client may use any part of it. Above the bound, connections
of the client that uses the most are closed, so it cannot keep other clients out. Connections are
counted by address, because connections of a proxy belong to no client while they are idle.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Protocol

from backend.telemetry.rate_limited_log import RateLimitedLog

MAX_UNREAD_BYTES = 128 << 20
"""The maximum bytes of answers that clients have not read yet, over all connections."""

_EXAMINED = 32  # connections that are compared to find the one to close

log = RateLimitedLog(logging.getLogger(__name__))


class OpenConnection(Protocol):
    """A connection, or one whose TLS handshake has not ended."""

    address: str
    """The address of the socket, without the port; "" if it is unknown."""

    @property
    def request_ends(self) -> float | None:
        """When the time-out for what the client must send ends, in the event loop's time; None if
        the application is working."""

    def abort(self) -> None: ...


class ClosableConnection(OpenConnection, Protocol):
    """A connection with requests."""

    client: str
    """The client whose requests these are."""

    @property
    def is_idle(self) -> bool: ...

    def close(self) -> None: ...


def address_of(transport: Any) -> str:
    """The `address` of a connection with this transport."""
    peer = transport.get_extra_info("peername")
    return peer[0] if isinstance(peer, tuple) else ""


class OpenConnections:
    """The connections by address of the client, oldest first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._by_address: dict[str, dict[OpenConnection, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, connection: OpenConnection) -> None:
        """Count a connection. If there are too many, close one, which may be this one."""
        self._by_address.setdefault(connection.address, {})[connection] = None
        self._count += 1
        if self._count > self.limit:
            self._make_room(connection)

    def discard(self, connection: OpenConnection) -> None:
        by_age = self._by_address.get(connection.address, {})
        if connection in by_age:
            del by_age[connection]
            self._count -= 1
        if not by_age:
            self._by_address.pop(connection.address, None)

    def _make_room(self, newest: OpenConnection) -> None:
        """Close a connection of the address that has the most: the one whose time-out for a
        request ends first, or the newest if all are busy."""
        by_age = max(self._by_address.values(), key=len)
        log.warn(
            "connections",
            f"too many connections are open; idle ones of {next(iter(by_age)).address}, which "
            f"has {len(by_age)}, are closed",
        )
        victim, first = newest, float("inf")
        for connection in [c for c, _ in zip(by_age, range(_EXAMINED), strict=False)]:
            ends = connection.request_ends
            if ends is None:  # it is busy: look at others first the next time
                by_age[connection] = by_age.pop(connection)
            elif connection is not newest and ends < first:
                victim, first = connection, ends
        victim.abort()


class UnreadBytes:
    """Bytes of answers that wait for clients, by connections whose writing is paused."""

    def __init__(self, limit: int = MAX_UNREAD_BYTES) -> None:
        self.limit = limit
        self.total = 0
        self._sizes: dict[ClosableConnection, int] = {}  # the longest waiting one first

    def add(self, connection: ClosableConnection, size: int) -> None:
        """Count the bytes of a connection that waits for its client. If there are too many in
        total, close connections of the client with the most bytes, beginning with the one that has
        waited longest."""
        self.discard(connection)
        self._sizes[connection] = size
        self.total += size
        while self.total > self.limit:
            unread_by_client: Counter[str] = Counter()
            for c, waiting in self._sizes.items():
                unread_by_client[c.client] += waiting
            [(client, most)] = unread_by_client.most_common(1)
            victim = next(c for c in self._sizes if c.client == client)
            log.warn(
                "unread",
                f"{self.total} bytes of answers have not been read by clients, {most} of them by "
                f"{client}: some of its connections are closed",
            )
            self.discard(victim)
            victim.abort()

    def discard(self, connection: ClosableConnection) -> None:
        self.total -= self._sizes.pop(connection, 0)
