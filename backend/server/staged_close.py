"""Closes a connection on which the client may still send: RFC 9112, 9.6.

If a socket is closed while bytes of its client are unread, the client's system discards the part of
the answer that the client has not read yet. So the server first ends its own direction. Then it
reads and discards what arrives, for a bounded time and up to a bounded size, and closes.
"""

from __future__ import annotations

from typing import Any

SECONDS = 2.0
"""How long a client may take to read the answer and to stop sending."""
_MAX_BYTES = 4 << 20  # discarded at most; the largest body of a client has 2 MiB


class StagedClose:
    """The end of a connection's life: the server sends nothing more, and discards what arrives."""

    __slots__ = ("_left", "_transport")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._left = _MAX_BYTES
        # TLS cannot end one direction: its client sees the end of the answer by the answer's length
        if transport.can_write_eof():
            transport.write_eof()  # after all that was written
        transport.resume_reading()

    def discard(self, size: int) -> None:
        """Count bytes that the client has sent. If there are too many, close the connection."""
        self._left -= size
        if self._left < 0:
            self._transport.close()
