"""Writes appends, admin actions and refusals to the audit log."""

from __future__ import annotations

from backend.http.access import Access, scope_of
from backend.http.asgi import Scope
from backend.http.request import Request
from backend.http.route_table import Match
from backend.security.audit import ADMIN, APPEND, REFUSED, AuditLog, described
from model.problems import Forbidden, Problem

_REFUSALS = (401, 403, 429)
_EVENTS = {Access.APPEND: APPEND, Access.ADMIN: ADMIN}

DISCONNECTED = "client-disconnected"
"""The code of an append or action whose client left before the answer. The append or action may
have been done."""


def audit(
    log: AuditLog,
    match: Match,
    scope: Scope,
    status: int,
    request: Request | None = None,
    problem: Problem | None = None,
    code: str | None = None,
    client: str = "",
) -> None:
    """Writes a line, if the request needs one.

    `request`: None if it was refused before its route was considered; then `client` names the
    client, as `Clients.named_in` does. `problem`: the answer, if the answer is a problem.
    """
    access = match.route.access
    event = REFUSED if status in _REFUSALS else _EVENTS.get(access)
    if event is None:
        return
    subject = problem.subject if isinstance(problem, Forbidden) else None
    if request is not None and request.identity is not None:
        subject = request.identity.subject
    log.record(
        event,
        status,
        problem.code if problem is not None else code,
        subject,
        scope_of(access, match.name),
        described(
            scope["method"],
            match.route.pattern,
            match.name,
            client if request is None else request.client,
            (scope.get("client") or ("",))[0],
            scope["headers"],
        ),
        None if request is None else request.details,
    )
