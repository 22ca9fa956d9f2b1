"""Limits on concurrent requests."""

from __future__ import annotations

import asyncio
from collections import Counter

from backend.queries.turns import INSTANCES, FairQueue, this_client
from model.problems import Unavailable

_MAX_WAITING = 256  # requests of a kind


class Gate:
    """Limits the concurrent requests of a kind. Above the limit, it raises Unavailable. Used in the
    event loop.

    One client may use three quarters of the places, so it cannot keep others out. With `patience`
    (s), requests wait that long for a place before they are refused (`async with`). Then clients
    take turns, however many requests each of them has.
    """

    def __init__(self, name: str, limit: int, patience: float = 0.0) -> None:
        """`name`: the kind of requests in the plural, for the error."""
        self.limit = limit
        self.patience = patience
        self._name = name
        self._in_flight = 0
        self._by_client: Counter[str] = Counter()
        self._share = share_of(limit)
        self._waiting = FairQueue()
        self._waits = 0

    async def __aenter__(self) -> None:
        """Wait for a place until the patience is over, then raise Unavailable."""
        if not await self._waited(this_client()):
            self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    async def _waited(self, client: str) -> bool:
        """Wait for a place. Return True if the request has waited and got one."""
        if not self.patience or self._must_not_wait(client):
            return False
        turn = self._waiting.add(client)
        self._waits += 1
        try:
            async with asyncio.timeout(self.patience):
                await turn
            return True
        except (TimeoutError, asyncio.CancelledError) as e:
            if turn.done() and not turn.cancelled():
                if isinstance(e, TimeoutError):
                    return True  # it got a place at the same moment
                self._leave(client)  # the next request gets the place
            if isinstance(e, TimeoutError):
                return False
            raise
        finally:
            self._waits -= 1
            self._waiting.discard(client, turn)

    def _must_not_wait(self, client: str) -> bool:
        """Whether there is a place, or too many requests wait for one."""
        if not self._is_full(client) and not self._waiting.has(client):
            return True
        is_client = client != INSTANCES
        too_many = is_client and self._waiting.waiting(client) >= share_of(_MAX_WAITING)
        return too_many or self._waits >= _MAX_WAITING

    def __enter__(self) -> None:
        client = this_client()
        if self._is_full(client):
            raise Unavailable(
                "overloaded",
                f"Too many {self._name}: {self._in_flight} are in progress, "
                f"{self._by_client[client]} of the same client.",
            )
        self._enter(client)

    def __exit__(self, *_: object) -> None:
        self._leave(this_client())

    def _enter(self, client: str) -> None:
        self._in_flight += 1
        self._by_client[client] += 1

    def _leave(self, client: str) -> None:
        self._in_flight -= 1
        self._by_client[client] -= 1
        if not self._by_client[client]:
            del self._by_client[client]
        # the place is taken now, so that no later request gets it
        if (woken := self._waiting.wake_next(self._has_room)) is not None:
            self._enter(woken)

    def _has_room(self, client: str) -> bool:
        return not self._is_full(client)

    def _is_full(self, client: str) -> bool:
        taken = self._by_client.get(client, 0)
        return self._in_flight >= self.limit or (client != INSTANCES and taken >= self._share)


def share_of(limit: int) -> int:
    """The part of a limit that one client may use: three quarters, and always less than the whole
    limit if the limit is above 1."""
    return limit - max(limit // 4, min(1, limit - 1))
