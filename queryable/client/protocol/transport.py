"""The I/O operations that a call yields, and their results: the seam between calls and clients.

A transport performs operations: with urllib3 (`sync_client`), with aiohttp (`async_client`), or
from a script (the tests).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request to `base_url` + `target` (path and query, percent-encoded).

    `timeout` is in seconds: for the whole exchange, or for a stream, until its head has arrived.
    `connect_timeout`: for connecting, if it is shorter. `read_timeout`: for each read of the body
    of a stream.
    """

    base_url: str
    target: str
    timeout: float
    method: str = "GET"
    headers: Mapping[str, str] | None = field(default=None, repr=False)  # they have the token
    body: bytes | None = None
    connect_timeout: float | None = None
    read_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response. Lookups in `headers` use lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """A response whose body has not been read yet."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


class TransportError(Exception):
    """No response, or a broken stream. It is thrown into a call at the operation that failed.

    `may_have_arrived`: a server may have received the request. `is_final`: the same server would
    fail again, for example because its certificate is not accepted. `timed_out`: there was no
    response in time, so the cause is unknown.
    """

    def __init__(
        self,
        detail: str,
        *,
        may_have_arrived: bool,
        is_final: bool = False,
        timed_out: bool = False,
    ) -> None:
        super().__init__(detail)
        self.may_have_arrived = may_have_arrived
        self.is_final = is_final
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class Exchange:
    """Send a request. Result: Response."""

    request: Request


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Send a request and read the response's head. Result: Stream, which the call must close."""

    request: Request


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """Read from a stream. Result: the bytes that have arrived, at least one; b"" at the end."""

    stream: Any


@dataclass(frozen=True, slots=True)
class CloseStream:
    stream: Any


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


Operation = Exchange | OpenStream | ReadChunk | CloseStream | Sleep
Call = Generator[Operation, Any, T]
"""A call that returns a T."""
