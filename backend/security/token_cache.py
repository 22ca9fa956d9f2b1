"""The identities of verified tokens, in bounded memory.

There are two generations. A new identity goes to the young generation, and an old identity that is
used moves there. When the young generation is full, it becomes the old one, and the rest of the old
one is dropped. So even many new tokens do not evict tokens in use, and neither a look-up nor an
insertion ever walks through the cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from threading import Lock

from backend.security.identity import Identity

MAX_TOKENS = 10_000
MAX_BYTES = 16 << 20
# bytes of Python's objects: for an identity and a digest, and for one scope in its set
_IDENTITY_BYTES, _SCOPE_BYTES = 800, 150


def digest_of(token: bytes) -> bytes:
    """The digest by which coalesced reads name a token (`backend/wire/point_batch.py`)."""
    return hashlib.sha256(token).hexdigest().encode()


class _Generation:
    """Identities by token, and tokens by digest: a digest is not a token, so digests have a table
    of their own."""

    __slots__ = ("bytes", "identities", "tokens")

    def __init__(self) -> None:
        self.identities: dict[bytes, Identity] = {}
        self.tokens: dict[bytes, bytes] = {}
        self.bytes = 0


class TokenCache:
    """Identities by token. Used in the event loop and in Flask's threads."""

    def __init__(self, max_tokens: int = MAX_TOKENS, max_bytes: int = MAX_BYTES) -> None:
        # of one generation
        self._max_tokens, self._max_bytes = max_tokens // 2, max_bytes // 2
        self._young, self._old = _Generation(), _Generation()
        self._lock = Lock()  # of changes; look-ups need none

    def __len__(self) -> int:
        return len(self._young.identities.keys() | self._old.identities.keys())

    def get(self, token: bytes) -> Identity | None:
        """The identity of a token, which may have expired. For the hot path."""
        identity = self._young.identities.get(token)
        if identity is None and (identity := self._old.identities.get(token)) is not None:
            self.put(token, identity)
        return identity

    def get_by_digests(self, digests: Sequence[bytes]) -> list[Identity | None]:
        """The same for the tokens with these digests."""
        young = self._young
        # two loops in C, because each read of a batch may have its own token
        tokens = map(young.tokens.get, digests)
        identities = list(map(young.identities.get, tokens))  # type: ignore[arg-type]
        return identities if all(identities) else list(map(self._get_by_digest, digests))

    def _get_by_digest(self, digest: bytes) -> Identity | None:
        token = self._young.tokens.get(digest) or self._old.tokens.get(digest)
        return None if token is None else self.get(token)

    def put(self, token: bytes, identity: Identity) -> None:
        size = _size(token, identity)
        if size > self._max_bytes:
            return
        with self._lock:
            young = self._young
            if token in young.identities:
                young.identities[token] = identity
                return
            full = len(young.identities) >= self._max_tokens
            if full or young.bytes + size > self._max_bytes:
                self._old, self._young = young, _Generation()
                young = self._young
            young.identities[token] = identity
            young.tokens[digest_of(token)] = token
            young.bytes += size


def _size(token: bytes, identity: Identity) -> int:
    """The approximate bytes of memory of an entry."""
    texts = sum(map(len, identity.scopes)) + _SCOPE_BYTES * len(identity.scopes)
    return _IDENTITY_BYTES + len(token) + texts
