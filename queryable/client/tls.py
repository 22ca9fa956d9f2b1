"""TLS of both clients: the context of their connections, and what a failed handshake means."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from functools import cache
from typing import cast

from queryable.client.protocol.errors import BadUse

TLS = Callable[[], ssl.SSLContext]
"""The context, made when it is first used: loading the system's authorities takes milliseconds."""


def client_tls(ca_file: str | os.PathLike[str] | None, verify: bool) -> TLS:
    """`ca_file` (PEM) defaults to QUERYABLE_CA_FILE, else to the system's authorities, or those of
    SSL_CERT_FILE and SSL_CERT_DIR. Raises BadUse."""
    if not verify:
        if ca_file is not None:
            raise BadUse("ca_file has no effect with verify=False: leave one of them out.")
        return cache(_unverified)
    path = ca_file or os.environ.get("QUERYABLE_CA_FILE")
    if not path:
        return cache(ssl.create_default_context)
    try:
        context = ssl.create_default_context(cafile=os.fspath(path))
    except OSError as error:  # also SSLError
        why = "it has no certificates in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise BadUse(f"Cannot use {os.fspath(path)} as ca_file: {why}.") from None
    return lambda: context


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def handshake_problem(error: BaseException) -> str | None:
    """Why a handshake failed, with what to do; None if `error` has another cause."""
    found = _ssl_error(error)
    if isinstance(found, ssl.SSLCertVerificationError):
        why = found.verify_message.rstrip(".")
        return (
            f"the server's certificate is not accepted: {why}. The authority that issued it is "
            "given by ca_file, QUERYABLE_CA_FILE or SSL_CERT_FILE."
        )
    if found is None or found.reason is None:
        return None
    if found.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "the server does not speak TLS at this port. Is it http:// instead of https://?"
    return f"the TLS handshake failed: {found.reason.lower().replace('_', ' ')}."


def _ssl_error(error: BaseException) -> ssl.SSLError | None:
    """The error of the handshake within an error of urllib3 or aiohttp."""
    seen: set[int] = set()
    pending: list[object] = [error]
    while pending:
        each = pending.pop()
        if not isinstance(each, BaseException) or id(each) in seen:
            continue
        # no subclass: aiohttp's subclasses lack the attributes, and a connection that ends early is
        # not a failed handshake
        if type(each) in (ssl.SSLError, ssl.SSLCertVerificationError):
            return cast(ssl.SSLError, each)
        seen.add(id(each))
        pending += [*each.args, each.__cause__, getattr(each, "os_error", None)]
    return None
