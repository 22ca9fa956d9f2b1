"""The keys of changelog records, by kind of store (model/kinds/layout.py)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

BARE_KEY: Mapping[str, Callable[[bytes], bytes]] = {
    "window": lambda key: key[:-12],
    "session": lambda key: key[:-16],
    "versioned": lambda key: key,
    "key-value": lambda key: key,
}
"""The application's key in a record key, by kind of store."""


def window_times(key: bytes) -> tuple[int, int] | None:
    """The start of the window, twice; None if the key does not end like a window's key."""
    if len(key) < 12:
        return None
    start, sequence = struct.unpack(">qi", key[-12:])
    return (start, start) if sequence >= 0 else None


def session_times(key: bytes) -> tuple[int, int] | None:
    """The start and end of the session; None if the key is too short."""
    if len(key) < 16:
        return None
    end, start = struct.unpack(">qq", key[-16:])
    return start, end
