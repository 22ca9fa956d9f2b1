"""Why another instance has not answered, and whether an answer really comes from it."""

from __future__ import annotations

import logging
import ssl

import orjson

from backend.security.signatures import HEADER, SignedRequest
from backend.telemetry.rate_limited_log import RateLimitedLog
from backend.wire.answer import Header
from model.problems import Unavailable
from model.topology import Member

log = RateLimitedLog(logging.getLogger(__name__))

NOT_REACHED = (TimeoutError, OSError, UnicodeError)
"""Errors of a connection to a member. UnicodeError: the member has sent an invalid host name."""


class PeerRefused(Unavailable):
    """The instance does not accept internal requests of this one."""


class PeerNotAsked(Unavailable):
    """No connection to the instance was free in time, so it was not asked."""


def unreachable(
    member: Member, error: Exception, kind: type[Unavailable] = Unavailable
) -> Unavailable:
    """The problem for an error of the connection."""
    # aiohttp's TLS errors are SSLErrors, too
    why = type(error).__name__
    if isinstance(error, ssl.SSLError):
        why = f"{why}: {error}"
    if kind is PeerNotAsked:
        why = "no connection to it was free"
    return kind(
        "owner-unreachable",
        f"Instance {member.id} owns the key's partition, but does not answer "
        f"({why}). Retry: another instance takes over if it is down.",
        instance=member.id,
    )


def check_sender(
    member: Member,
    signed: SignedRequest | None,
    status: int,
    headers: list[Header],
    body: bytes,
) -> None:
    """Raises Unavailable if another program may have answered, or the instance refuses this one.

    `signed`: the request; None if it was not signed."""
    signature = next((value for name, value in headers if name == HEADER), None)
    if signed is not None and signed.is_answer(status, body, signature):
        return
    if signed is None and status != 403:
        return
    reason = (
        f"refuses requests of this instance: {_detail(body)}"
        if status == 403
        else f"has answered {status} without a valid signature by the cluster secret"
    )
    log.warn(f"{member.id} {status}", f"instance {member.id} {reason}")
    raise unreachable(member, PermissionError(), PeerRefused if status == 403 else Unavailable)


def _detail(body: bytes) -> str:
    """The detail of a problem document, for the log."""
    try:
        return repr(orjson.loads(body)["detail"])[:500]
    except (ValueError, KeyError, TypeError):
        return "403"
