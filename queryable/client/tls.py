"""TLS of both clients: the context of their connections, and the reasons of failed handshakes."""

from __future__ import annotations

import os
import ssl
from functools import cache

from model.http.answers import TLS
from model.http.problems import NOT_ACCEPTED, tls_problem
from queryable.client.protocol.errors import BadUse


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
        reason = (
            "it has no certificates in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        )
        raise BadUse(f"Cannot use {os.fspath(path)} as ca_file: {reason}.") from None
    return lambda: context


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def handshake_problem(error: BaseException) -> str | None:
    """The reason of a failed handshake and what to do; None if `error` has another cause."""
    problem = tls_problem(error)
    if problem is not None and problem.startswith(NOT_ACCEPTED):
        return (
            f"{problem}. The authority that issued it is given by ca_file, QUERYABLE_CA_FILE or "
            "SSL_CERT_FILE."
        )
    return problem if problem is None or problem.endswith("?") else f"{problem}."
