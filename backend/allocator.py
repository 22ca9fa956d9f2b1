"""How the C library hands out memory: it is most of what a process has beyond its caches."""

from __future__ import annotations

import ctypes

ARENAS = 2
_M_ARENA_MAX = -8  # glibc's malloc.h


def bound_arenas(most: int = ARENAS) -> bool:
    """All threads share so many arenas; false where the C library is not glibc.

    By default there are eight a core, and what is freed in one is of no use to the others: those of
    RocksDB and librdkafka would leave gaps in all of them. To be called before they start.
    Source: mallopt(3).
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, most))
    except AttributeError:
        return False
