"""Limits on concurrent requests."""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from backend.queries.turns import INSTANCES, this_sender
from model.problems import Unavailable

_MAX_WAITING = 256  # requests of a kind


class Gate:
    """Limits the concurrent requests of a kind; Unavailable above. Used in the event loop.

    One client address may use three quarters of the places, so it cannot keep others out. With
    `patience` (s), requests wait that long for a place before they are refused.
    """

    def __init__(self, name: str, limit: int, patience: float = 0.0) -> None:
        """`name`: the kind of requests in the plural, for the error."""
        self.limit = limit
        self.patience = patience
        self._name = name
        self._in_flight = 0
        self._of_senders: Counter[str] = Counter()
        self._share = limit - limit // 4
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def room(self) -> None:
        """Wait until there may be a place for this sender, or the patience is over."""
        if not self.patience or not self._is_full(this_sender()):
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience
        while self._is_full(this_sender()) and len(self._waiting) < _MAX_WAITING:
            place: asyncio.Future[None] = loop.create_future()
            self._waiting.append(place)
            try:
                async with asyncio.timeout_at(deadline):
                    await place
            except TimeoutError:
                return
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._wake_next()  # it was this request's turn, and now it is the next one's
                raise
            if self._is_full(this_sender()):
                self._wake_next()  # it may have room for another sender

    def __enter__(self) -> None:
        sender = this_sender()
        if self._is_full(sender):
            raise Unavailable(
                "overloaded",
                f"Too many {self._name}: {self._in_flight} are in progress, "
                f"{self._of_senders[sender]} of the same sender.",
            )
        self._in_flight += 1
        self._of_senders[sender] += 1

    def __exit__(self, *_: object) -> None:
        sender = this_sender()
        self._in_flight -= 1
        self._of_senders[sender] -= 1
        if not self._of_senders[sender]:
            del self._of_senders[sender]
        self._wake_next()

    def _is_full(self, sender: str) -> bool:
        is_client = sender != INSTANCES
        of_sender = self._of_senders.get(sender, 0)
        return self._in_flight >= self.limit or (is_client and of_sender >= self._share)

    def _wake_next(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
