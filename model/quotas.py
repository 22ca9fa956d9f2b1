"""Quotas of views: how many requests are answered in a period, and the bucket that counts them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"([1-9][0-9]{0,8})/(s|m)")
_SECONDS = {"s": 1, "m": 60}


@dataclass(frozen=True)
class Quota:
    """`requests` within `seconds`, in the whole deployment."""

    requests: int
    seconds: int

    def __str__(self) -> str:
        unit = next(unit for unit, seconds in _SECONDS.items() if seconds == self.seconds)
        return f"{self.requests}/{unit}"

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


def parse_quota(text: str) -> Quota:
    """Parse `N/s` or `N/m`. Raises ValueError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a quota such as "5000/s" or "300/m"')
    return Quota(int(match[1]), _SECONDS[match[2]])


class TokenBucket:
    """A bucket that fills with tokens over time, up to its capacity. Each request takes a token."""

    def __init__(self, capacity: float, now: float) -> None:
        self._tokens = capacity
        self._filled_at = now

    def take(self, per_second: float, capacity: float, now: float) -> float:
        """Take a token and return 0. If there is none, return the time (s) until there is one.

        Rate and capacity may change between calls.
        """
        filled = self._tokens + max(0.0, now - self._filled_at) * per_second
        self._tokens, self._filled_at = min(filled, capacity), now
        if self._tokens < 1:
            return (1 - self._tokens) / per_second
        self._tokens -= 1
        return 0.0
