"""Memory of the C library: its arenas are most of the memory outside caches."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_MAX_ARENAS = 2
_M_ARENA_MAX = -8  # glibc's malloc.h


def limit_arenas(limit: int = _MAX_ARENAS) -> bool:
    """Let all threads share `limit` malloc arenas. Returns False if the C library is not glibc.

    The default is eight arenas per core. Memory that is freed in one arena is not reused by
    another, so the threads of RocksDB and librdkafka would fragment all of them. Call this before
    they start. Source: mallopt(3).
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, limit))
    except AttributeError:
        return False


def release_free_memory() -> None:
    """Give memory that is allocated and freed back to the operating system, if the C library can.

    By itself, it returns only what is free at the end of an arena. Other threads wait while their
    arena is searched, some milliseconds for 100 MB. Source: malloc_trim(3).
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
