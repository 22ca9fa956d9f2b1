"""The latest encoded topologies, for members that have a reference to one."""

from __future__ import annotations

import threading
from collections import OrderedDict

from model.group.topology_reference import digest_of

_MOST = 4  # a slow member may ask for a topology after a newer one was added


class EncodedTopologies:
    """Encoded topologies by their digest; the oldest are dropped. Used in any thread."""

    def __init__(self) -> None:
        self._by_digest: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, encoded: bytes) -> None:
        with self._lock:
            self._by_digest[digest_of(encoded)] = encoded
            while len(self._by_digest) > _MOST:
                self._by_digest.popitem(last=False)

    def get(self, digest: str) -> bytes | None:
        with self._lock:
            return self._by_digest.get(digest)
