"""The identities of verified tokens, in bounded memory.

Two generations: a new identity goes to the young one. When that is full, it becomes the old one,
and the identities of the old one are dropped, unless they were used since (they moved to the young
one). So many new tokens do not evict those in use, and neither a look-up nor an insertion ever
walks through the cache.
"""

from __future__ import annotations

from threading import Lock

from backend.security.identity import Identity

MAX_TOKENS = 10_000
MAX_BYTES = 16 << 20
# bytes of Python's objects: for an identity, and for one scope in its set
_IDENTITY_BYTES, _SCOPE_BYTES = 600, 150


class TokenCache:
    """Identities by token. Used in the event loop and in Flask's threads."""

    def __init__(self, max_tokens: int = MAX_TOKENS, max_bytes: int = MAX_BYTES) -> None:
        # of one generation
        self._max_tokens, self._max_bytes = max_tokens // 2, max_bytes // 2
        self._young: dict[bytes, Identity] = {}
        self._old: dict[bytes, Identity] = {}
        self._young_bytes = 0
        self._lock = Lock()  # of changes; look-ups need none

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def get(self, token: bytes) -> Identity | None:
        """The identity of a token, which may have expired. For the hot path."""
        found = self._young.get(token)
        if found is None and (found := self._old.get(token)) is not None:
            self.put(token, found)
        return found

    def put(self, token: bytes, identity: Identity) -> None:
        size = _size(token, identity)
        if size > self._max_bytes:
            return
        with self._lock:
            if token in self._young:
                self._young[token] = identity
                return
            full = len(self._young) >= self._max_tokens
            if full or self._young_bytes + size > self._max_bytes:
                self._old, self._young, self._young_bytes = self._young, {}, 0
            self._young[token] = identity
            self._young_bytes += size


def _size(token: bytes, identity: Identity) -> int:
    """Bytes of memory, about."""
    texts = sum(map(len, identity.scopes)) + _SCOPE_BYTES * len(identity.scopes)
    return _IDENTITY_BYTES + len(token) + texts
