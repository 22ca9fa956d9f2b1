"""Why a request got no answer, in words, from an error of urllib3 or aiohttp."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from collections.abc import Iterator

NOT_IN_TIME = "no answer in time"
_CLOSED = "the connection was closed before the answer was complete"
_NO_HTTP = "the answer is not HTTP"
_LONG_HEAD = "the head of the answer is too long"
_BY_NAME = {
    "ClientPayloadError": _CLOSED,
    "IncompleteRead": _CLOSED,
    "ConnectionError": _CLOSED,
    "ServerDisconnectedError": _CLOSED,
    "SSLEOFError": _CLOSED,
    "SSLZeroReturnError": _CLOSED,
    "LineTooLong": _LONG_HEAD,
    "UnknownProtocol": _NO_HTTP,
    "HTTPException": _LONG_HEAD,  # the others that http.client raises have names above
    "ProtocolError": _CLOSED,
    "ClientResponseError": _NO_HTTP,
    "ProxyError": "the proxy does not connect to the server",
}
"""Errors of the two libraries; neither is imported here, because a client uses only one of them."""

NOT_ACCEPTED = "the server's certificate is not accepted"
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


def tls_problem(error: BaseException) -> str | None:
    """Why the TLS handshake failed, without a full stop; None if `error` has another cause."""
    # no subclasses: aiohttp's subclasses lack the attributes, and a connection that ends early is
    # not a failed handshake
    for cause in _causes(error):
        if type(cause) is ssl.SSLCertVerificationError:
            return f"{NOT_ACCEPTED}: {cause.verify_message.rstrip('.')}"
        if type(cause) is ssl.SSLError and cause.reason is not None:
            if cause.reason in _NO_TLS:
                return (
                    "the server does not speak TLS at this port. Is it http:// instead of https://?"
                )
            return f"the TLS handshake failed: {cause.reason.lower().replace('_', ' ')}"
    return None


def connection_problem(error: BaseException) -> str:
    """The reason in one sentence, without a full stop and without the words of the libraries."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "the name of the host cannot be resolved"
        if isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__:
            return NOT_IN_TIME
        if isinstance(cause, http.client.BadStatusLine) and not isinstance(
            cause, http.client.RemoteDisconnected
        ):
            return _NO_HTTP
        # the number of an SSLError is OpenSSL's
        if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
            return os.strerror(cause.errno).lower()
        if isinstance(cause, OSError) and (text := str(cause)).startswith(
            "Tunnel connection failed"
        ):
            return f"t{text[1:200]}"
    for cause in causes:
        for kind in type(cause).__mro__:
            if kind.__name__ in _BY_NAME:
                return _BY_NAME[kind.__name__]
    return type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it contains or that led to it, each once; the inner ones first,
    because they say more."""
    visited: set[int] = set()
    pending: list[object] = [error]
    causes: list[BaseException] = []
    while pending:
        cause = pending.pop()
        if not isinstance(cause, BaseException) or id(cause) in visited:
            continue
        visited.add(id(cause))
        causes.append(cause)
        inner = (cause.__cause__, cause.__context__, getattr(cause, "os_error", None))
        pending += [*cause.args, *inner, getattr(cause, "reason", None)]
    yield from reversed(causes)
