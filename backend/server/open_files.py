"""The limit of open files: each connection is one, and so is each file of RocksDB."""

from __future__ import annotations

import resource
from contextlib import suppress

_MAX_WITHOUT_A_LIMIT = 10_240
"""macOS: OPEN_MAX, the largest soft limit. The hard one is "unlimited", and cannot be set."""


def raise_limit() -> int:
    """Raise the soft limit of this process to the hard one, as the JVM does; returns the limit. A
    shell's soft limit is often 1,024 (macOS: 256): fewer than the connections that are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        if 0 <= soft < _MAX_WITHOUT_A_LIMIT:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_WITHOUT_A_LIMIT, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_within(limit: int, max_connections: int) -> int:
    """How many connections are allowed, at most `max_connections`: not more than half of the open
    files, so that clients cannot use up the files that RocksDB and Kafka's clients need."""
    return (
        max_connections
        if limit == resource.RLIM_INFINITY
        else min(max_connections, max(limit // 2, 1))
    )
