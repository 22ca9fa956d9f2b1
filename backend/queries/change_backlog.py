"""Changes that wait for the clients of streams: bounded in number and in bytes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from backend.ingest.change_listeners import Change
from backend.queries.turns import INSTANCES, this_client

MAX_CHANGES = 1000
MAX_BYTES = 4 << 20  # of one stream
MAX_BYTES_OF_ALL = 64 << 20
_OVERHEAD = 200  # bytes of a change next to its value


class BacklogBudget:
    """The bytes that the changes of all streams of an instance may take. Used in the event loop.

    The streams of one client may use three quarters of the bytes, so they cannot end the streams of
    other clients.
    """

    def __init__(self, size: int = MAX_BYTES_OF_ALL) -> None:
        self.left = size
        self._share = size - size // 4
        self._by_client: Counter[str] = Counter()

    def has_room(self, client: str, size: int) -> bool:
        is_share_used = client != INSTANCES and self._by_client[client] + size > self._share
        return size <= self.left and not is_share_used

    def charge(self, client: str, size: int) -> None:
        """Count these bytes; a negative number gives them back."""
        self.left -= size
        self._by_client[client] += size
        if not self._by_client[client]:
            del self._by_client[client]


class Backlog:
    """The changes that wait for one client. Used in the event loop.

    A change counts until the next one is fetched: until then it is being sent.
    """

    def __init__(self, budget: BacklogBudget) -> None:
        """Create it in the task of the client's request."""
        self._budget = budget
        self._client = this_client()
        self._waiting: asyncio.Queue[Change | None] = asyncio.Queue()
        self._bytes = 0  # with those of the change that is being sent
        self._sending = 0
        self._ended = False

    def put(self, changes: Sequence[Change]) -> bool:
        """Add changes; return False if they are too many or too large. Then the backlog drops the
        changes that wait, and ends. A client that reconnects gets the latest value."""
        if self._ended:
            return False
        if self._waiting.qsize() > MAX_CHANGES:
            self._drop()
            return False
        for change in changes:
            size = _OVERHEAD + len(change.value or b"")
            # one change may be larger than MAX_BYTES, but not than the bytes left for all streams
            is_full = not self._budget.has_room(self._client, size)
            if is_full or (self._bytes and self._bytes + size > MAX_BYTES):
                self._drop()
                return False
            self._charge(size)
            self._waiting.put_nowait(change)
        return True

    def admit(self, size: int) -> bool:
        """Count an event of this size (bytes) that is sent now; False if it is too large."""
        if not self._budget.has_room(self._client, size):
            return False
        self._charge(size)
        self._sending = size
        return True

    def end(self) -> None:
        """Accept no more changes. Those that wait are still sent."""
        if not self._ended:
            self._ended = True
            self._waiting.put_nowait(None)

    def _drop(self) -> None:
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._charge(self._sending - self._bytes)
        self.end()

    async def get(self, timeout: float) -> Change | None:
        """The next change, None at the end. Raises TimeoutError."""
        self._charge(-self._sending)
        self._sending = 0
        async with asyncio.timeout(timeout):  # in Python 3.11, `wait_for` can lose a cancellation
            change = await self._waiting.get()
        if change is not None:
            self._sending = _OVERHEAD + len(change.value or b"")
        return change

    def close(self) -> None:
        """Drop the changes, and count no bytes any more."""
        self._drop()
        self._charge(-self._bytes)
        self._sending = 0

    def _charge(self, size: int) -> None:
        self._bytes += size
        self._budget.charge(self._client, size)
