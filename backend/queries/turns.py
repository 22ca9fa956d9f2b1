"""Expensive queries take turns, so that reads of keys and other clients wait for one step at most.

An event loop runs everything that is ready before it looks at its sockets again. Without turns, a
read would wait for a step of each of some hundred queries. A step is a millisecond or two.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple

INSTANCES = ""
"""The client of what an instance or a proxy asks for itself."""


def _anyone(_: str) -> bool:
    return True


class FairQueue:
    """Who waits, by client: clients take turns, and so do those who wait of one client. Used in the
    event loop."""

    def __init__(self) -> None:
        self._of_clients: dict[str, deque[asyncio.Future[None]]] = {}  # the next client first

    def __bool__(self) -> bool:
        return bool(self._of_clients)

    def has(self, client: str) -> bool:
        """Whether a request of this client waits."""
        return client in self._of_clients

    def waiting(self, client: str) -> int:
        """How many of this client wait, with those that were cancelled."""
        return len(self._of_clients.get(client, ()))

    def add(self, client: str) -> asyncio.Future[None]:
        """A future that `wake_next` sets when it is this one's turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._of_clients.setdefault(client, deque()).append(turn)
        return turn

    def discard(self, client: str, turn: asyncio.Future[None]) -> None:
        """It no longer waits."""
        of_client = self._of_clients.get(client)
        if of_client is not None and turn in of_client:
            of_client.remove(turn)
            if not of_client:
                del self._of_clients[client]

    def wake_next(self, may_go: Callable[[str], bool] = _anyone) -> str | None:
        """Wake one of the next client that may go. The client; None if there is none."""
        for client in list(self._of_clients):
            if not may_go(client):
                continue
            waiting = self._of_clients.pop(client)
            turn = _next_of(waiting)
            if waiting:
                self._of_clients[client] = waiting  # after all others
            if turn is not None:
                turn.set_result(None)
                return client
        return None


def _next_of(waiting: deque[asyncio.Future[None]]) -> asyncio.Future[None] | None:
    while waiting:
        turn = waiting.popleft()
        if not turn.done():  # cancelled
            return turn
    return None


class Turns:
    """Lets one query of a client, and one that another instance asks for, go on in each round of
    the event loop. Used in the event loop."""

    def __init__(self) -> None:
        self._of_clients = FairQueue()
        self._of_instances = FairQueue()
        self._is_running = False

    async def next(self, client: str, is_peer: bool) -> None:
        """Wait for a round in which it is this query's turn. `is_peer`: whether another instance
        asks for it."""
        turn = (self._of_instances if is_peer else self._of_clients).add(client)
        if not self._is_running:
            self._is_running = True
            asyncio.get_running_loop().call_soon(self._advance)
        await turn

    def _advance(self) -> None:
        self._of_clients.wake_next()
        self._of_instances.wake_next()
        self._is_running = bool(self._of_clients or self._of_instances)
        if self._is_running:
            asyncio.get_running_loop().call_soon(self._advance)


class _Sender(NamedTuple):
    turns: Turns
    client: str
    is_peer: bool


_sender: ContextVar[_Sender | None] = ContextVar("sender", default=None)


def set_sender(turns: Turns, client: str, is_peer: bool = False) -> None:
    """Set the client of the request, for this task and for tasks that it starts. `is_peer`: whether
    another instance or a proxy asks, for this client or (INSTANCES) for itself."""
    _sender.set(_Sender(turns, client, is_peer or client == INSTANCES))


def this_client() -> str:
    """The client whose request this task answers, or INSTANCES."""
    given = _sender.get()
    return INSTANCES if given is None else given.client


async def next_turn() -> None:
    """Wait for the turn of this task's request. Call it before each expensive step."""
    given = _sender.get()
    if given is None:
        await asyncio.sleep(0)
    else:
        await given.turns.next(given.client, given.is_peer)
