"""Expensive queries take turns, so that reads of keys and other clients wait for one step at most.

An event loop runs everything that is ready before it looks at its sockets again. Without turns, a
read would wait for a step of each of some hundred queries. A step takes `step_s()` of this thread's
processor time, or a little more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextvars import ContextVar
from itertools import islice
from time import thread_time
from typing import NamedTuple, TypeVar

from backend.queries.pace import STEP_S, Pace

_PIECE = 50  # items between two looks at the clock

_T = TypeVar("_T")

INSTANCES = ""
"""The client of requests that an instance or a proxy sends for itself."""


def _anyone(_: str) -> bool:
    return True


class FairQueue:
    """The waiting requests, by client. Clients take turns, and so do the requests of one client.
    Used in the event loop."""

    def __init__(self) -> None:
        self._by_client: dict[str, deque[asyncio.Future[None]]] = {}  # the next client first

    def __len__(self) -> int:
        """How many clients wait."""
        return len(self._by_client)

    def has(self, client: str) -> bool:
        """Whether a request of this client waits."""
        return client in self._by_client

    def waiting(self, client: str) -> int:
        """How many requests of this client wait, including cancelled ones."""
        return len(self._by_client.get(client, ()))

    def add(self, client: str) -> asyncio.Future[None]:
        """Add a request. `wake_next` sets the returned future when the request may go on."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._by_client.setdefault(client, deque()).append(turn)
        return turn

    def discard(self, client: str, turn: asyncio.Future[None]) -> None:
        """Remove a request that no longer waits."""
        turns = self._by_client.get(client)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._by_client[client]

    def wake_next(self, may_go: Callable[[str], bool] = _anyone) -> str | None:
        """Wake one request of the next client that may go on. Returns the client; None if
        there is none."""
        for client in list(self._by_client):
            if not may_go(client):
                continue
            waiting = self._by_client.pop(client)
            turn = _next_of(waiting)
            if waiting:
                self._by_client[client] = waiting  # after all others
            if turn is not None:
                turn.set_result(None)
                return client
        return None


def _next_of(waiting: deque[asyncio.Future[None]]) -> asyncio.Future[None] | None:
    while waiting:
        turn = waiting.popleft()
        if not turn.done():  # else it was cancelled
            return turn
    return None


class Turns:
    """Lets one query go on in each round of the event loop, alternately a client's query and one
    that another instance asks for. Used in the event loop."""

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._client_queries = FairQueue()
        self._instance_queries = FairQueue()
        self._is_of_instance = False  # whether an instance's query had the last turn
        # in which the next turn is scheduled; a closed loop (in tests) runs nothing any more
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def step_s(self) -> float:
        """How long the next step may take (s)."""
        return self._pace.step_s

    async def next(self, client: str, is_peer: bool) -> None:
        """Wait for a round in which this query may go on. `is_peer`: whether another instance asks
        for it."""
        turn = (self._instance_queries if is_peer else self._client_queries).add(client)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_soon(self._advance)
        await turn

    def _step_ended(self) -> None:
        clients = len(self._client_queries) + len(self._instance_queries)
        if not clients:
            self._loop = None
        elif pause := self._pace.pause(clients):
            asyncio.get_running_loop().call_later(pause, self._advance)
        else:
            self._advance()

    def _advance(self) -> None:
        self._pace.begin()
        first, second = self._instance_queries, self._client_queries
        if self._is_of_instance:
            first, second = second, first
        woken = first if first.wake_next() is not None else second
        if woken is second:
            second.wake_next()
        self._is_of_instance = woken is self._instance_queries
        # after the step of the query that was woken
        asyncio.get_running_loop().call_soon(self._step_ended)


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
    sender = _sender.get()
    return INSTANCES if sender is None else sender.client


def step_s() -> float:
    """How long a step of this task's request may take (s of processor time)."""
    sender = _sender.get()
    return STEP_S if sender is None else sender.turns.step_s


async def next_turn() -> None:
    """Wait for the turn of this task's request. Call it before each expensive step."""
    sender = _sender.get()
    if sender is None:
        await asyncio.sleep(0)
    else:
        await sender.turns.next(sender.client, sender.is_peer)


async def in_steps(items: Iterable[_T], size: int = 0) -> AsyncIterator[list[_T]]:
    """The items, `size` at a time (0: some), with a turn after each step of work on them."""
    remaining, began = iter(items), thread_time()
    while piece := list(islice(remaining, size or _PIECE)):
        yield piece
        if thread_time() - began >= step_s():
            await next_turn()
            began = thread_time()
