"""Verifies JSON Web Tokens (RFC 7519) of clients.

A verified token is cached until it expires or the keys change, so that most requests cost a
look-up in a dictionary. Refused tokens are not cached. Scopes are in the claim `scope` (RFC 8693,
4.2: a text with spaces) or `scp` (a list).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jwt

from backend.security.identity import Identity, known_scopes
from backend.security.token_cache import TokenCache
from backend.wire.plain_requests import MAX_TOKEN_BYTES
from model.formats.base64url import from_base64url
from model.formats.json_text import check_levels
from model.problems import Unauthenticated

ALGORITHMS = ("HS256", "RS256", "ES256", "EdDSA")
_MAX_LEVELS = 100
"""The depth of JSON in a token. That of Python's parser depends on its version."""

_LEEWAY = 5.0  # s that the clocks of issuer and instance may differ


class KeySource(Protocol):
    """The keys that verify signatures."""

    @property
    def generation(self) -> int:
        """A number that is different after each change of the keys."""

    def keys(self, key_id: str | None, algorithm: str) -> Sequence[Any]:
        """The keys to try: those with this id and algorithm; `key_id` is None if the token has
        none."""


@dataclass(frozen=True)
class TokenPolicy:
    """What a token must have. `issuer` and `audience` are not checked if they are empty."""

    algorithms: tuple[str, ...] = ALGORITHMS
    issuer: str = ""
    audience: str = ""


@dataclass(frozen=True, slots=True)
class _Verified:
    """Tokens that keys of one generation, or later ones, have verified."""

    generation: int
    cache: TokenCache = field(default_factory=TokenCache)


class TokenVerifier:
    """Verifies tokens. Used in the event loop and in Flask's threads."""

    def __init__(
        self,
        keys: KeySource,
        policy: TokenPolicy = TokenPolicy(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock`: Unix time in s."""
        self._keys = keys
        self._policy = policy
        self._clock = clock
        self._verified = _Verified(keys.generation)

    def known(self, token: bytes) -> Identity | None:
        """The identity of a token that was verified before and is still valid; None if it must be
        verified. For the hot path."""
        verified = self._verified
        if verified.generation != self._keys.generation:
            return None
        identity = verified.cache.get(token)
        return identity if identity is not None and self._clock() < identity.expires_at else None

    def known_by_digests(self, digests: Sequence[bytes]) -> list[Identity | None]:
        """The same for the tokens with these digests (`token_cache.digest_of`)."""
        verified = self._verified
        if verified.generation != self._keys.generation:
            return [None] * len(digests)
        identities, now = verified.cache.get_by_digests(digests), self._clock()
        return [i if i is not None and now < i.expires_at else None for i in identities]

    def identity(self, token: bytes) -> Identity:
        """The identity of a token; Unauthenticated, which says why it is refused."""
        identity = self.known(token)
        if identity is not None:
            return identity
        # The generation is read before the keys. If they change in between, the identity goes to a
        # cache that is not used any longer.
        generation = self._keys.generation
        verified = self._verified
        if verified.generation != generation:
            self._verified = verified = _Verified(generation)
        identity = self._verify(token)
        verified.cache.put(token, identity)
        return identity

    def _verify(self, token: bytes) -> Identity:
        if len(token) > MAX_TOKEN_BYTES:
            raise refused(f"it has {len(token)} bytes; at most {MAX_TOKEN_BYTES} are allowed")
        header_text, _, rest = token.partition(b".")
        try:
            _check_levels(header_text)
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, TypeError):
            raise refused("it is not a JSON Web Token") from None
        try:
            _check_levels(rest.partition(b".")[0])
        except ValueError:
            raise refused("it is malformed") from None
        algorithm = header.get("alg")
        if algorithm not in self._policy.algorithms:
            raise refused(f"its algorithm is not one of {', '.join(self._policy.algorithms)}")
        claims = self._claims(token, self._keys.keys(header.get("kid"), algorithm), algorithm)
        return _identity(claims)

    def _claims(self, token: bytes, keys: Sequence[Any], algorithm: str) -> dict[str, Any]:
        for key in keys:
            try:
                return jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    issuer=self._policy.issuer or None,
                    audience=self._policy.audience or None,
                    leeway=_LEEWAY,
                    options={"require": ["exp"], "verify_aud": bool(self._policy.audience)},
                )
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError:
                raise refused("it has expired") from None
            except jwt.ImmatureSignatureError:
                raise refused("it is not valid yet") from None
            except jwt.InvalidIssuerError:
                raise refused("it has another issuer") from None
            except jwt.InvalidAudienceError:
                raise refused("it is for another audience") from None
            except jwt.MissingRequiredClaimError as e:
                raise refused(f"it has no claim {e.claim!r}") from None
            except (jwt.PyJWTError, ValueError, TypeError):
                raise refused("it is malformed") from None
        raise refused("no key verifies its signature")


def _check_levels(part: bytes) -> None:
    """Raises ValueError if a part of a token is not base64url, or if its JSON is nested too
    deeply."""
    check_levels(from_base64url(part), _MAX_LEVELS)


def refused(why: str) -> Unauthenticated:
    """The problem of an invalid token."""
    return Unauthenticated(f"The token is refused: {why}.", error="invalid_token")


def _identity(claims: dict[str, Any]) -> Identity:
    scope = claims.get("scope", claims.get("scp", ""))
    scopes = scope.split() if isinstance(scope, str) else scope
    if not isinstance(scopes, list) or not all(isinstance(name, str) for name in scopes):
        raise refused("its claim 'scope' is neither a text nor a list of texts")
    # JSON's \ud800 is half of a character: JSON documents and hashes cannot have it
    subject = str(claims.get("sub", "")).encode(errors="backslashreplace").decode()
    try:
        expires_at = float(claims["exp"])
    except (ValueError, OverflowError):
        raise refused("its claim 'exp' is not a time") from None
    return Identity(subject[:256], known_scopes(scopes), expires_at)
