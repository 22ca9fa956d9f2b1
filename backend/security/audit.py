"""The audit log: a line with a JSON document for each append, admin action and refusal.

A line says who sent which request from where. It never has a key, a value or a token:

    time        ISO 8601, UTC
    event       append | admin | refused | suppressed
    instance    the instance that decided
    subject     of the token; null without a valid one
    scope       what the route needs, such as `append:orders`; empty if it needs none
    method      of the request
    route       the pattern of the route, such as `/topics/{topic}/records`
    name        the view or topic in the path; null if there is none
    client      the address of the client, from the proxies that are believed (`Clients`)
    proxy       the address of the socket, if the client is behind a proxy; else null
    claimed_client, claimed_id   X-Forwarded-For and X-Request-Id: what the sender says, the last
                characters of each, because nginx appends the address of its client
    status, code                 of the answer; code is null if it is not a problem
    partition, offset            of an appended record
    action, target, group, …     of an admin action; `target` is the instance that it is for

Refusals, and appends that had no effect because they were wrong (4xx) or too many, are limited, so
that no client can fill the disk. Above REFUSALS_PER_SECOND they are only counted: the line
`suppressed` before the next refusal has their number. All text is ASCII with JSON's escapes, so no
request can begin another line.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from backend.security.client_claims import address_for_logs
from backend.wire.answer import Header
from model.problems import ConfigurationError
from model.quotas import TokenBucket

REFUSALS_PER_SECOND = 20
_BURST = 200  # refusals that are written at once
_MAX_CLAIM = 200  # characters of a header

APPEND, ADMIN, REFUSED, SUPPRESSED = "append", "admin", "refused", "suppressed"

LOGGER = "queryable.audit"


class AuditLog:
    """Writes the lines of one instance. Used in the event loop."""

    def __init__(
        self,
        instance: str,
        write: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`write` gets each line; None: the logger."""
        self._instance = instance
        self._write = write or logging.getLogger(LOGGER).info
        self._clock = clock
        self._refusals = TokenBucket(_BURST, clock())
        self._suppressed = 0

    def record(
        self,
        event: str,
        status: int,
        code: str | None,
        subject: str | None,
        scope: str,
        request: Mapping[str, Any],
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """`request`: as from `described`; `details`: of an append."""
        has_no_effect = event == REFUSED or 400 <= status < 500 or code == "overloaded"
        if has_no_effect and not self._may_write_refusal():
            return
        self._line(
            event,
            {
                "subject": subject,
                "scope": scope,
                **request,
                "status": status,
                "code": code,
                **(details or {}),
            },
        )

    def _may_write_refusal(self) -> bool:
        if self._refusals.take(REFUSALS_PER_SECOND, _BURST, self._clock()):
            self._suppressed += 1
            return False
        if self._suppressed:
            self._line(SUPPRESSED, {"refusals": self._suppressed})
            self._suppressed = 0
        return True

    def _line(self, event: str, members: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        document = {"time": now, "event": event, "instance": self._instance, **members}
        self._write(json.dumps(document))  # ASCII only


def described(
    method: str, route: str, name: str, client: str, socket: str, headers: list[Header]
) -> dict[str, Any]:
    """The members of a line that describe a request. `name`: of the view or topic, or empty;
    `client`: an address, or how another instance names its client; `socket`: an address, or
    empty."""
    client = address_for_logs(client, socket)
    return {
        "method": method[:20],
        "route": route,
        "name": name or None,
        "client": client or None,
        "proxy": None if client == socket else socket or None,
        "claimed_client": _claim(headers, b"x-forwarded-for"),
        "claimed_id": _claim(headers, b"x-request-id"),
    }


def _claim(headers: list[Header], name: bytes) -> str | None:
    value = next((value for given, value in reversed(headers) if given == name), None)
    return None if value is None else value[-_MAX_CLAIM:].decode("latin-1")


def open_audit_log(path: str) -> None:
    """Sends the lines to a file, or to stderr if `path` is empty. Raises ConfigurationError.

    Call once per process. A file that was renamed or removed (logrotate) is created again.
    """
    logger = logging.getLogger(LOGGER)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        handler = _PrivateFile(path) if path else logging.StreamHandler(sys.stderr)
    except OSError as e:
        raise ConfigurationError(
            f"QUERYABLE_AUDIT_LOG: cannot write to {path}: {e.strerror}."
        ) from e
    handler.setFormatter(logging.Formatter("%(message)s"))
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    logger.addHandler(handler)


class _PrivateFile(WatchedFileHandler):
    """A file that only its owner may read, also after it was rotated."""

    def __init__(self, path: str) -> None:
        super().__init__(Path(path), encoding="ascii")

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.baseFilename, flags, 0o600)
        return os.fdopen(descriptor, "a", encoding="ascii")
