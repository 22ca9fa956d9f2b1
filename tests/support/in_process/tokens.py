"""Tokens of clients, and the keys that verify them, without files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jwt

from backend.http.access import AccessControl
from backend.security.tokens import TokenVerifier

KEY = b"a secret of at least 32 bytes for the tests"
OTHER_KEY = b"another secret of at least 32 bytes for tests"


class Keys:
    """A key source with one key, which a test can change. `verifications`: how often keys were
    asked for, once for each token that is verified."""

    def __init__(self, key: bytes = KEY) -> None:
        self.key = key
        self.generation = 1
        self.verifications = 0
        self.on_use: Callable[[], None] = lambda: None

    def keys(self, key_id: str | None, algorithm: str) -> Sequence[Any]:
        self.verifications += 1
        keys = [self.key]
        self.on_use()
        return keys

    def change(self, key: bytes) -> None:
        self.key = key
        self.generation += 1


def token(*scopes: str, key: bytes = KEY, expires_in: int = 3600, subject: str = "me") -> bytes:
    """A valid token with these scopes."""
    claims = {"sub": subject, "scope": " ".join(scopes), "exp": int(time.time()) + expires_in}
    return jwt.encode(claims, key, "HS256").encode()


def access_control(
    keys: Keys | None = None, clock: Callable[[], float] = time.time
) -> AccessControl:
    """Authentication that is on."""
    return AccessControl(TokenVerifier(keys or Keys(), clock=clock))
