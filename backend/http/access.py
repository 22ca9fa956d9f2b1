"""Access to routes: what a request must prove. Every instance checks this, once per request.

Nothing trusts the proxy. A request that an instance passes on to another one keeps its
`Authorization`, and the other instance checks it again (`backend/security/authorization.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum

from backend.http.request import Request
from backend.instance.settings import Settings
from backend.security.cluster import ClusterAccess
from backend.security.configuration import token_policy
from backend.security.identity import Identity, scopes_to_read
from backend.security.keys import TokenKeys
from backend.security.mutual_tls import has_cluster_certificate
from backend.security.tokens import TokenVerifier
from backend.wire.answer import Header
from backend.wire.plain_requests import TOKEN
from model.problems import Forbidden, Problem, Unauthenticated

_BEARER = re.compile(rb"(?i:bearer) +(" + TOKEN + rb")")
_BEARER_OR_TOKEN = re.compile(rb"(?:(?i:bearer) +)?(" + TOKEN + rb")")


class Access(Enum):
    """What a route needs."""

    OPEN = "open"  # nothing
    ANY_SCOPE = "any scope"  # a token with any scope, or a proxy or instance of the deployment
    READ = "read"  # `read:` of the view
    APPEND = "append"  # `append:` of the topic
    METRICS = "metrics"
    ADMIN = "admin"
    CLUSTER = "cluster"  # a proxy or instance of the deployment


def _never(_: Request) -> bool:
    return False


class Readers:
    """The senders of reads that arrive together, by the numbers of their tokens (see
    `backend/wire/point_batch.py`)."""

    def __init__(self, identities: Sequence[Identity | None] | None) -> None:
        """`identities`: one for each token, None for a token that may read nothing. The argument
        itself is None if authentication is off."""
        self._identities = identities
        self._readers_by_view: dict[str, frozenset[int]] = {}

    def tokens_that_read(self, view: str) -> frozenset[int] | None:
        """The numbers of the tokens that may read a view; None if every read may be answered."""
        if self._identities is None:
            return None
        readers = self._readers_by_view.get(view)
        if readers is None:
            needed = scopes_to_read(view)
            numbers = [
                number
                for number, identity in enumerate(self._identities, 1)
                if identity is not None and not identity.scopes.isdisjoint(needed)
            ]
            readers = self._readers_by_view[view] = frozenset(numbers)
        return readers

    def may_read(self, number: int, view: str) -> bool:
        """Whether a read with the token of this number may be answered."""
        readable = self.tokens_that_read(view)
        return readable is None or number in readable


ANYONE = Readers(None)
"""The readers if authentication is off: every read may be answered."""


class AccessControl:
    """Checks the tokens of clients."""

    def __init__(
        self,
        tokens: TokenVerifier | None,
        header: bytes = b"",
        is_from_cluster: Callable[[Request], bool] = _never,
    ) -> None:
        """`tokens`: None if authentication is off. `header`: the lower-case name of a header that
        has the token if there is no `Authorization`. `is_from_cluster`: whether a request without a
        body comes from a proxy or an instance of the deployment."""
        self._tokens = tokens
        self._header = header
        self._is_from_cluster = is_from_cluster

    @property
    def is_on(self) -> bool:
        return self._tokens is not None

    def admit_request(self, access: Access, request: Request, name: str = "") -> Identity | None:
        """Does the same as `admit`, but ANY_SCOPE also admits a proxy or instance of the
        deployment."""
        if access is Access.ANY_SCOPE and self._is_from_cluster(request):
            request.is_from_cluster = True
            return None
        return self.admit(access, request.headers, name)

    def admit(self, access: Access, headers: list[Header], name: str = "") -> Identity | None:
        """The sender; None if authentication is off or the route is open.

        `name`: of the view (READ) or topic (APPEND). Raises Unauthenticated or Forbidden. CLUSTER
        is not checked here.
        """
        if self._tokens is None or access in (Access.OPEN, Access.CLUSTER):
            return None
        identity = self._tokens.identity(self._token(headers))
        if not _is_allowed(identity, access, name):
            refusal = _forbidden(access, name)
            refusal.subject = identity.subject
            raise refusal
        return identity

    def still_admits(self, access: Access, headers: list[Header], name: str = "") -> bool:
        """Whether `admit` would admit the sender now: for streams."""
        try:
            self.admit(access, headers, name)
        except Problem:
            return False
        return True

    def authorization(self, headers: list[Header]) -> bytes | None:
        """The value of `Authorization` for requests to other instances; None if there is none."""
        header = None
        for name, value in headers:
            if name == b"authorization":
                return value
            if name == self._header:
                header = value
        match = None if header is None else _BEARER_OR_TOKEN.fullmatch(header)
        return None if match is None else b"Bearer " + match[1]

    def _token(self, headers: list[Header]) -> bytes:
        names = [name for name, _ in headers]
        if b"authorization" in names or self._header not in names:
            return bearer_token(headers)
        values = [value for name, value in headers if name == self._header]
        match = _BEARER_OR_TOKEN.fullmatch(values[0])
        if len(values) > 1 or match is None:
            raise Unauthenticated(
                f"{self._header.decode()} must be sent once, with a token.", error="invalid_request"
            )
        return match[1]

    def readers(self, digests: Sequence[bytes]) -> Readers:
        """The senders of reads whose tokens have these digests. A token that was not verified
        before may read nothing."""
        verifier = self._tokens
        return ANYONE if verifier is None else Readers(verifier.known_by_digests(digests))

    def may_read_now(self, token: bytes | None, view: str) -> bool:
        """Whether a read can be answered without `admit`: authentication is off, or the token was
        verified before. For the hot path."""
        if self._tokens is None:
            return True
        identity = None if token is None else self._tokens.known(token)
        return identity is not None and identity.may_read(view)


def access_control(
    settings: Settings, keys: TokenKeys | None, cluster: ClusterAccess
) -> AccessControl:
    """The access control that the settings ask for. `keys`: None if authentication is off. Raises
    ConfigurationError."""
    tokens = None if keys is None else TokenVerifier(keys, token_policy(settings))
    return AccessControl(
        tokens,
        settings.jwt_header.lower().encode(),
        lambda r: (
            has_cluster_certificate(r.scope)
            or cluster.is_signed(r.method, r.target, r.headers, r.socket_address)
        ),
    )


def bearer_token(headers: list[Header]) -> bytes:
    """The token of the one `Authorization` header (RFC 6750, 2.1). Raises Unauthenticated."""
    values = [value for name, value in headers if name == b"authorization"]
    if not values:
        raise Unauthenticated("The request has no token. Send Authorization: Bearer <token>.")
    match = _BEARER.fullmatch(values[0])
    if len(values) > 1 or match is None:
        raise Unauthenticated(
            "Authorization must be sent once, as: Bearer <token>.", error="invalid_request"
        )
    return match[1]


def scope_of(access: Access, name: str) -> str:
    """The scope that a token needs; empty if the route requires no particular scope. `name`: as in
    `admit`."""
    if access in (Access.READ, Access.APPEND):
        return f"{access.value}:{name}"
    return access.value if access in (Access.METRICS, Access.ADMIN) else ""


def _forbidden(access: Access, name: str) -> Forbidden:
    if access is Access.ANY_SCOPE:
        return Forbidden("forbidden", "The token has no scope of this service.")
    scope = scope_of(access, name)
    return Forbidden("forbidden", f"The token does not have the scope {scope}.", scope)


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
