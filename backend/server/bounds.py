"""Bounds on what all connections of an instance use together.

While the total is below its bound, one address may use any part of it. Above the bound, connections
of the address that uses the most are closed, so one client cannot keep others out.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from backend.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    from backend.server.connection import Connection

MAX_UNREAD_BYTES = 128 << 20
"""Bytes of answers that clients have not read yet, of all connections."""

_EXAMINED = 32  # connections that are compared to find the one to close

log = RateLimitedLog(logging.getLogger(__name__))


class OpenConnections:
    """The connections by address of the client, oldest first."""

    def __init__(self) -> None:
        self._by_address: dict[str, dict[Connection, None]] = {}

    def add(self, connection: Connection) -> None:
        self._by_address.setdefault(connection.address, {})[connection] = None

    def discard(self, connection: Connection) -> None:
        of_address = self._by_address.get(connection.address, {})
        of_address.pop(connection, None)
        if not of_address:
            self._by_address.pop(connection.address, None)

    def make_room(self, newest: Connection) -> None:
        """Close a connection of the address that has the most: the one whose time-out for a
        request ends first, or the newest if all are busy."""
        of_address = max(self._by_address.values(), key=len)
        log.warn(
            "connections",
            f"too many connections are open; idle ones of {next(iter(of_address)).address}, which "
            f"has {len(of_address)}, are closed",
        )
        victim, first = newest, float("inf")
        for connection in [c for c, _ in zip(of_address, range(_EXAMINED), strict=False)]:
            ends = connection.request_ends
            if ends is None:  # it is busy: look at others first the next time
                of_address[connection] = of_address.pop(connection)
            elif connection is not newest and ends < first:
                victim, first = connection, ends
        victim.abort()


class UnreadBytes:
    """Bytes of answers that wait for clients, by connections whose writing is paused."""

    def __init__(self, limit: int = MAX_UNREAD_BYTES) -> None:
        self.limit = limit
        self.total = 0
        self._by_address: dict[str, dict[Connection, int]] = {}

    def add(self, connection: Connection, size: int) -> None:
        """Count the bytes of a connection that waits for its client. If there are too many in
        total, disconnect clients of the address with the most bytes, the first one first."""
        self.discard(connection)
        self._by_address.setdefault(connection.address, {})[connection] = size
        self.total += size
        while self.total > self.limit:
            of_address = max(self._by_address.values(), key=lambda sizes: sum(sizes.values()))
            victim = next(iter(of_address))
            log.warn(
                "unread",
                f"{self.total} bytes of answers have not been read by clients, "
                f"{sum(of_address.values())} of them by {victim.address}: some of its connections "
                f"are closed",
            )
            self.discard(victim)
            victim.abort()

    def discard(self, connection: Connection) -> None:
        of_address = self._by_address.get(connection.address, {})
        self.total -= of_address.pop(connection, 0)
        if not of_address:
            self._by_address.pop(connection.address, None)
