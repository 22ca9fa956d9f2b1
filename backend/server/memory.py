"""Memory: the C library's arenas, which are most of it outside caches, and Python's objects."""

from __future__ import annotations

import ctypes
import gc

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


def reduce_garbage_collection() -> None:
    """Exclude the existing objects from garbage collection, and collect less often.

    Ingest creates thousands of objects per batch, without reference cycles. By default, the
    collector would run after every 700 of them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
