"""Disconnects clients that do not read their responses."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from typing import Any

log = logging.getLogger("backend.server")


class SlowReaderGuard:
    """Aborts a connection if its client reads nothing for `seconds` although bytes wait for it.

    A slow client that reads something keeps its connection.
    """

    def __init__(self, loop: AbstractEventLoop, transport: Any, seconds: float) -> None:
        self._loop = loop
        self._transport = transport
        self._seconds = seconds
        self._unread = 0  # bytes at the last check
        self._next_check: TimerHandle | None = None

    def start(self) -> None:
        if self._next_check is None:
            self._check_later()

    def stop(self) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None

    def _check_later(self) -> None:
        self._unread = self._transport.get_write_buffer_size()
        self._next_check = self._loop.call_later(self._seconds, self._check)

    def _check(self) -> None:
        if self._transport.get_write_buffer_size() < self._unread:
            self._check_later()
            return
        self._next_check = None
        log.warning(
            "connection closed: a client has read nothing for %g s, %d bytes were waiting",
            self._seconds,
            self._unread,
        )
        self._transport.abort()
