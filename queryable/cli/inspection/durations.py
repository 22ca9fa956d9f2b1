"""Durations in milliseconds."""

from __future__ import annotations

DAY = 86_400_000
_UNITS = (("d", DAY), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def duration_text(ms: int) -> str:
    """In the syntax of views.toml: at most nine digits. A longer number is rounded up to a larger
    unit."""
    short = [(unit, size) for unit, size in _UNITS if -(-ms // size) < 10**9]
    unit, size = next((pair for pair in short if ms % pair[1] == 0), short[-1])
    return f"{-(-ms // size)}{unit}"
