"""What a call wants done, and what comes of it: the seam between the calls and the two clients."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """`target`: path and query, encoded. `timeout`: s for all of it; of a stream for each read."""

    base: str
    target: str
    timeout: float
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """`headers` by names in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer whose body is still to be read."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


class NoConnection(Exception):
    """Sent into a call: no answer, or a stream broke. `may_have_arrived`: somebody may have got
    the request."""

    def __init__(self, detail: str, *, may_have_arrived: bool) -> None:
        super().__init__(detail)
        self.may_have_arrived = may_have_arrived


@dataclass(frozen=True, slots=True)
class Exchange:
    """Gives a Response."""

    request: Request


@dataclass(frozen=True, slots=True)
class Open:
    """Gives a Stream, to be closed."""

    request: Request


@dataclass(frozen=True, slots=True)
class Read:
    """Gives the bytes that have come, at least one; b"" at the end."""

    stream: Any


@dataclass(frozen=True, slots=True)
class Close:
    stream: Any


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Effect = Exchange | Open | Read | Close | Pause
Call = Generator[Effect, Any, T]
"""A call that returns a T."""
