"""What an attack is, and what all of them use: connections from an address of their own."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

ADDRESS = "127.0.0.66"
"""The attacker's address. Honest readers have another one, as in reality."""

VIEW = "orders"
PARTITIONS = 6
"""Of the view's topic."""
CHANGING = [f"changing {number}" for number in range(20)]
"""Keys that change many times a second."""

PROXY, BACKEND = "proxy", "backend"
TOKENS, CLUSTER = "tokens", "cluster secret"

CLOSED = "closed"
"""An outcome: the server has closed the connection without an answer."""
HANGS = "no answer"
"""An outcome: neither an answer nor a closed connection within the time-out."""

ANSWER_TIMEOUT = 10.0  # s


@dataclass(frozen=True)
class Site:
    """What is attacked. The secrets are for making requests that are nearly right."""

    proxy: int  # port
    backend: int  # port
    instance: str  # id of the backend
    topic: str
    keys: Sequence[str]
    log: str  # path of the log of the backend
    token: str = ""  # of the honest readers; empty: authentication is off
    token_key: str = ""  # the key that signs tokens, as text
    cluster_secret: str = ""

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Attempt:
    """One run of an attack. `outcomes` counts statuses, CLOSED and HANGS."""

    site: Site
    target: str
    seconds: float
    patience: float = 1.0  # multiplies the times that servers have to close connections
    began: float = field(default_factory=time.monotonic)
    outcomes: Counter[str] = field(default_factory=Counter)
    failure: str = ""  # what was not refused

    @property
    def port(self) -> int:
        return self.site.proxy if self.target == PROXY else self.site.backend

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.began + self.seconds

    @property
    def left(self) -> float:
        return max(0.0, self.began + self.seconds - time.monotonic())

    def fail(self, why: str) -> None:
        self.failure = self.failure or why

    async def connect(self, receive_buffer: int = 0) -> Connection:
        """A connection from the attacker's address; OSError."""
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            sock.bind((ADDRESS, 0))
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(
                loop.sock_connect(sock, ("127.0.0.1", self.port)), ANSWER_TIMEOUT
            )
        except (OSError, TimeoutError):
            sock.close()
            raise
        return Connection(sock)

    async def send(self, request: bytes, timeout: float = ANSWER_TIMEOUT) -> str:
        """The status of one request on a new connection, CLOSED or HANGS; it is counted."""
        outcome = CLOSED
        try:
            connection = await self.connect()
        except (OSError, TimeoutError):
            pass
        else:
            with connection:
                outcome = await connection.ask(request, timeout)
        self.outcomes[outcome] += 1
        return outcome

    async def crowd(self, size: int, work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        """Runs `work(number)` that many times at the same time."""
        await asyncio.gather(*map(work, range(size)))


class Connection:
    """An open socket in the event loop."""

    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self.sock = sock

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    async def send(self, data: bytes) -> None:
        """OSError if the server has closed the connection."""
        await self._loop.sock_sendall(self.sock, data)

    async def receive(self, timeout: float, size: int = 65536) -> bytes | None:
        """Bytes, b"" at the end of the stream or after a reset, or None after the time-out."""
        try:
            return await asyncio.wait_for(self._loop.sock_recv(self.sock, size), timeout)
        except TimeoutError:
            return None
        except OSError:
            return b""

    async def ask(self, request: bytes, timeout: float = ANSWER_TIMEOUT) -> str:
        """The status of the answer (its body may be unread), CLOSED or HANGS."""
        with suppress(OSError, TimeoutError):  # the answer may be there already
            await asyncio.wait_for(self.send(request), timeout)
        head = await self.receive(timeout)
        return HANGS if head is None else status_of(head)

    async def all(self, timeout: float = ANSWER_TIMEOUT) -> bytes:
        """All bytes until the server closes the connection or sends none for the time-out."""
        received = b""
        while chunk := await self.receive(timeout):
            received += chunk
        return received

    async def closed_within(self, seconds: float) -> bool:
        """Whether the server closes the connection within this time. What it sends is discarded."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            chunk = await self.receive(left)
            if chunk is None:
                return False
            if not chunk:
                return True
        return False


def status_of(answer: bytes) -> str:
    """The status of the first response of these bytes."""
    parts = answer[:32].split(b" ")
    if len(parts) > 1 and answer.startswith(b"HTTP/1."):
        return parts[1].decode("latin-1")
    return CLOSED if not answer else "not HTTP"


Perform = Callable[[Attempt], Awaitable[None]]


@dataclass(frozen=True)
class Attack:
    """`perform(attempt)` attacks until `attempt.is_over`, and calls `fail` if it was not refused.

    What counts as refused stands in `refused`, for the documentation.
    """

    name: str
    target: str
    refused: str
    perform: Perform
    seconds: float = 1.5
    needs: str = ""  # TOKENS, CLUSTER or nothing

    @property
    def full_name(self) -> str:
        return f"{self.target}/{self.name}"


def both(
    name: str, refused: str, perform: Perform, seconds: float = 1.5, needs: str = ""
) -> list[Attack]:
    """The attack through the proxy and at a backend's port."""
    return [Attack(name, target, refused, perform, seconds, needs) for target in (PROXY, BACKEND)]


REFUSALS = frozenset(
    ["400", "401", "403", "404", "405", "408", "411", "413", "414", "415", "416", "417", "421",
     "429", "431", "501", "503", "505", CLOSED]
)  # fmt: skip


def get(path: str | bytes, headers: bytes = b"") -> bytes:
    raw = path.encode() if isinstance(path, str) else path
    return b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\n" % (raw, headers)


def post(path: str, body: bytes, headers: bytes = b"Content-Type: application/json\r\n") -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n%b\r\n"
    return head % (path.encode(), len(body), headers) + body


def each(*requests: bytes, only: frozenset[str] = REFUSALS, senders: int = 8) -> Perform:
    """Sends the requests one after the other from some senders, each on a new connection. Refused
    if every status is one of `only`, and every request got an answer or was closed."""

    async def perform(attempt: Attempt) -> None:
        async def work(number: int) -> None:
            turn = number
            while not attempt.is_over:
                outcome = await attempt.send(requests[turn % len(requests)])
                if outcome not in only:
                    sent = requests[turn % len(requests)][:80]
                    attempt.fail(f"{outcome} to {sent!r}")
                turn += 1

        await attempt.crowd(max(senders, len(requests)), work)

    return perform


def within(bound: float, *requests: bytes, senders: int = 8) -> Perform:
    """Like `each`, for requests that are allowed and expensive: each has to be answered within
    `bound` s, with any status but 500."""

    async def perform(attempt: Attempt) -> None:
        async def work(number: int) -> None:
            turn = number
            while not attempt.is_over:
                outcome = await attempt.send(requests[turn % len(requests)], bound)
                if outcome in (HANGS, "500", "not HTTP"):
                    attempt.fail(f"{outcome} to {requests[turn % len(requests)][:80]!r}")
                turn += 1

        await attempt.crowd(senders, work)

    return perform
