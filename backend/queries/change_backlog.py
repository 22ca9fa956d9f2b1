"""Changes that wait for the clients of streams: bounded in number and in bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from backend.ingest.change_listeners import Change

MOST_CHANGES = 1000
MOST_BYTES = 4 << 20  # of one stream
MOST_BYTES_OF_ALL = 64 << 20
_OVERHEAD = 200  # bytes of a change beside its value


class Room:
    """Bytes for the changes of all streams of an instance."""

    def __init__(self, size: int = MOST_BYTES_OF_ALL) -> None:
        self.left = size


class Backlog:
    """The changes that wait for one client. Used in the event loop.

    A change takes room until the next one is asked for: until then it is being sent.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._waiting: asyncio.Queue[Change | None] = asyncio.Queue()
        self._held = 0  # bytes, with the change that is being sent
        self._sending = 0
        self._ended = False

    def put(self, changes: Sequence[Change]) -> bool:
        """False if they are too many or too large: then the backlog ends, and drops the changes
        that wait; a client that reconnects gets the latest value."""
        if self._ended:
            return False
        if self._waiting.qsize() > MOST_CHANGES:
            self._drop()
            return False
        for change in changes:
            size = _OVERHEAD + len(change.value or b"")
            # one change may be larger than what a stream may have, not than what is left for all
            if size > self._room.left or (self._held and self._held + size > MOST_BYTES):
                self._drop()
                return False
            self._charge(size)
            self._waiting.put_nowait(change)
        return True

    def admit(self, size: int) -> bool:
        """Whether there is room for an event of this size (bytes) that is sent at once."""
        if size > self._room.left:
            return False
        self._charge(size)
        self._sending = size
        return True

    def end(self) -> None:
        """No more changes after those that wait."""
        if not self._ended:
            self._ended = True
            self._waiting.put_nowait(None)

    def _drop(self) -> None:
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._charge(self._sending - self._held)
        self.end()

    async def get(self, timeout: float) -> Change | None:
        """The next change, None at the end; TimeoutError."""
        self._charge(-self._sending)
        self._sending = 0
        change = await asyncio.wait_for(self._waiting.get(), timeout)
        if change is not None:
            self._sending = _OVERHEAD + len(change.value or b"")
        return change

    def close(self) -> None:
        """Gives back all room."""
        self._ended = True
        self._charge(-self._held)
        self._sending = 0

    def _charge(self, size: int) -> None:
        self._held += size
        self._room.left -= size
