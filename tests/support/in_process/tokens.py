"""Tokens for tests, and an AccessControl that accepts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jwt

from backend.http.access import Access, AccessControl
from backend.security.tokens import TokenVerifier

SECRET = b"a secret of the tests, long enough for HS256"


class Keys:
    """A key source with one secret, which a test can replace. `verifications`: how often the key
    was asked for, once for each token that is verified; `on_use` is called after that."""

    def __init__(self, secret: bytes = SECRET) -> None:
        self.secret = secret
        self.generation = 0
        self.verifications = 0
        self.on_use: Callable[[], object] = lambda: None

    def keys(self, key_id: str | None, algorithm: str) -> Sequence[Any]:
        found = [self.secret] if algorithm == "HS256" else []
        self.verifications += 1
        self.on_use()
        return found

    def rotate(self, secret: bytes) -> None:
        self.secret = secret
        self.generation += 1


def token(*scopes: str, seconds: float = 86_400.0, key: Any = SECRET, **claims: Any) -> str:
    """A token with these scopes for `seconds`."""
    claims = {"sub": "test", "scope": " ".join(scopes), "exp": time.time() + seconds, **claims}
    return jwt.encode(claims, key, algorithm="HS256")


def bearer(*scopes: str, **options: Any) -> tuple[bytes, bytes]:
    """The header with such a token."""
    return (b"authorization", b"Bearer " + token(*scopes, **options).encode())


def verify(access: AccessControl, sent: bytes) -> None:
    """Verifies a token as the router does: from now on it is known."""
    access.admit(Access.ANY_SCOPE, [(b"authorization", b"Bearer " + sent)])


def access_control(keys: Keys | None = None, **options: Any) -> AccessControl:
    return AccessControl(TokenVerifier(keys or Keys()), **options)
