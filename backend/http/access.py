"""What a route needs of its sender, and the check of it: once per request, on every instance.

Nothing trusts the proxy. A request that an instance passes on to another one keeps its
`Authorization`, and the other instance checks it again.
"""

from __future__ import annotations

import re
from enum import Enum

from backend.security.identity import Identity
from backend.security.tokens import TokenVerifier
from backend.wire.answer import Header
from model.problems import Forbidden, Unauthenticated

_BEARER = re.compile(rb"(?i:bearer) +([A-Za-z0-9._~+/-]+=*)")


class Access(Enum):
    """What a route needs."""

    OPEN = "open"  # nothing
    ANY_SCOPE = "any scope"  # a token with any scope, or a proxy or instance of the deployment
    READ = "read"  # `read:` of the view
    APPEND = "append"  # `append:` of the topic
    METRICS = "metrics"
    ADMIN = "admin"
    CLUSTER = "cluster"  # a proxy or instance of the deployment


class AccessControl:
    """Checks the tokens of clients."""

    def __init__(self, tokens: TokenVerifier | None) -> None:
        """`tokens`: None if authentication is off."""
        self._tokens = tokens

    @property
    def is_on(self) -> bool:
        return self._tokens is not None

    def admit(self, access: Access, headers: list[Header], name: str = "") -> Identity | None:
        """The sender; None if authentication is off or the route is open.

        `name`: of the view (READ) or topic (APPEND). Unauthenticated, Forbidden. CLUSTER is not
        checked here.
        """
        if self._tokens is None or access in (Access.OPEN, Access.CLUSTER):
            return None
        identity = self._tokens.identity(bearer_token(headers))
        if not _is_allowed(identity, access, name):
            scope = f"{access.value}:{name}" if name else access.value
            raise Forbidden("forbidden", f"The token does not have the scope {scope}.", scope)
        return identity

    def is_known(self, token: bytes) -> bool:
        """Whether the token was verified before and is still valid. Always if authentication is
        off."""
        return self._tokens is None or self._tokens.known(token) is not None

    def verify(self, token: bytes) -> None:
        """Verifies a token, so that it is known; Unauthenticated."""
        if self._tokens is not None:
            self._tokens.identity(token)

    def may_read_now(self, token: bytes | None, view: str) -> bool:
        """Whether a read can be answered without `admit`: authentication is off, or the token was
        verified before. For the hot path."""
        if self._tokens is None:
            return True
        identity = None if token is None else self._tokens.known(token)
        return identity is not None and identity.may_read(view)


NO_ACCESS_CONTROL = AccessControl(None)
"""Authentication is off."""


def bearer_token(headers: list[Header]) -> bytes:
    """The token of the one `Authorization` header (RFC 6750, 2.1); Unauthenticated."""
    given = [value for name, value in headers if name == b"authorization"]
    if not given:
        raise Unauthenticated("The request has no token. Send Authorization: Bearer <token>.")
    found = _BEARER.fullmatch(given[0])
    if len(given) > 1 or found is None:
        raise Unauthenticated(
            "Authorization must be sent once, as: Bearer <token>.", error="invalid_request"
        )
    return found[1]


def _is_allowed(identity: Identity, access: Access, name: str) -> bool:
    match access:
        case Access.READ:
            return identity.may_read(name)
        case Access.APPEND:
            return identity.may_append(name)
        case Access.ANY_SCOPE:
            return bool(identity.scopes)
        case _:
            return access.value in identity.scopes
