"""The options of a request, its answer and errors, and the type of the function that sends it."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypedDict, Unpack

TLS = Callable[[], ssl.SSLContext]
"""The context of connections for https, made when it is first used: loading the system's
authorities takes milliseconds."""


class RequestFailed(Exception):
    """There is no complete answer. The message has the reason, but neither the URL nor anything
    that was sent."""


class AnswerTooLong(RequestFailed):
    """The body is longer than the caller allows."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. `headers`: names in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Options(TypedDict, total=False):
    """The options of a request."""

    body: bytes  # with a body it is a POST, otherwise a GET
    headers: Mapping[str, str]
    tls: TLS  # default: it trusts the authorities of the system
    use_proxies: bool  # those of HTTP_PROXY, HTTPS_PROXY and NO_PROXY; default: False


class Send(Protocol):
    """See `model.http.requests.send`."""

    def __call__(
        self, url: str, timeout_s: float, max_bytes: int, **options: Unpack[Options]
    ) -> Answer: ...


def basic(credentials: str) -> str:
    """The header `Authorization` of `user:password`."""
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"
