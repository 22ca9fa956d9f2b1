"""Expensive queries take turns, so that reads of keys and other senders wait for one step at most.

An event loop runs everything that is ready before it looks at its sockets again. Without turns, a
read would wait for a step of each of some hundred queries. A step is a millisecond or two.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar

INSTANCES = ""
"""The sender of all requests of other instances and of the proxy."""


class Turns:
    """Lets one query of a client, and one of other instances, go on in each round of the event
    loop. Senders take turns, and so do the queries of one sender. Used in the event loop."""

    def __init__(self) -> None:
        self._of_clients: dict[str, deque[asyncio.Future[None]]] = {}  # the next sender first
        self._of_instances: deque[asyncio.Future[None]] = deque()
        self._is_running = False

    async def next(self, sender: str) -> None:
        """Wait for a round in which it is this query's turn. `sender`: an address, or INSTANCES."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        if sender == INSTANCES:
            self._of_instances.append(turn)
        else:
            self._of_clients.setdefault(sender, deque()).append(turn)
        if not self._is_running:
            self._is_running = True
            loop.call_soon(self._advance)
        await turn

    def _advance(self) -> None:
        if self._of_clients:
            sender = next(iter(self._of_clients))
            waiting = self._of_clients.pop(sender)
            _wake_first(waiting)
            if waiting:
                self._of_clients[sender] = waiting  # after all others
        _wake_first(self._of_instances)
        self._is_running = bool(self._of_clients or self._of_instances)
        if self._is_running:
            asyncio.get_running_loop().call_soon(self._advance)


def _wake_first(waiting: deque[asyncio.Future[None]]) -> None:
    while waiting:
        turn = waiting.popleft()
        if not turn.done():  # cancelled
            turn.set_result(None)
            return


_sender: ContextVar[tuple[Turns, str] | None] = ContextVar("sender", default=None)


def set_sender(turns: Turns, sender: str) -> None:
    """Set the sender of the request, for this task and for tasks that it starts."""
    _sender.set((turns, sender))


def this_sender() -> str:
    """The address of the client whose request this task answers, or INSTANCES."""
    given = _sender.get()
    return INSTANCES if given is None else given[1]


async def next_turn() -> None:
    """Wait for the turn of this task's request. Call it before each expensive step."""
    given = _sender.get()
    if given is None:
        await asyncio.sleep(0)
    else:
        turns, sender = given
        await turns.next(sender)
