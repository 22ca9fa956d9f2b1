"""Remembers signatures for as long as they are valid, so that each is accepted once."""

from __future__ import annotations

import threading

WINDOW_MS = 30_000  # by which a signature may be older or newer than the receiver's clock
_MAX_REMEMBERED = 500_000  # some 40 MB; 60 s of 8,000 requests per second


class ReplayWindow:
    """The signatures of the last 60 to 120 s, in two generations.

    A signature from a clock that is ahead by the whole window is valid for 60 s. If there are too
    many signatures, the older generation is forgotten early. Then only newer signatures than those
    of this generation are accepted, so clocks may differ less. Used in several threads.
    """

    def __init__(self, started_at: int, max_signatures: int | None = None) -> None:
        """`started_at`: Unix time in ms. A signature from before the start may have been used
        already."""
        self._max_generation = (_MAX_REMEMBERED if max_signatures is None else max_signatures) // 2
        self._oldest_allowed = started_at
        self._rotated_at = started_at
        self._lock = threading.Lock()
        self._recent: set[int] = set()
        self._earlier: set[int] = set()
        self._newest_recent = self._newest_earlier = 0

    def is_within(self, at: int, now: int) -> bool:
        """Whether a signature of this time (ms) can be accepted."""
        if now < self._rotated_at - WINDOW_MS:
            # the clock was set back: no signature would be newer than those before
            self._oldest_allowed, self._newest_earlier, self._newest_recent = 0, 0, 0
            self._rotated_at = now
        return abs(now - at) <= WINDOW_MS and at >= self._oldest_allowed

    def add(self, mac: bytes, at: int, now: int) -> bool:
        """Remember a valid signature; False if it is known. `mac`: in hex."""
        # 60 bits: the chance that two valid signatures of a window share them is some 10^-8
        number = int(mac[:15], 16)
        with self._lock:
            if number in self._recent or number in self._earlier:
                return False
            if now - self._rotated_at > 2 * WINDOW_MS or len(self._recent) >= self._max_generation:
                self._rotate(now)
            self._recent.add(number)
            self._newest_recent = max(self._newest_recent, at)
        return True

    def _rotate(self, now: int) -> None:
        self._oldest_allowed = max(self._oldest_allowed, self._newest_earlier + 1)
        self._earlier, self._newest_earlier = self._recent, self._newest_recent
        self._recent, self._newest_recent = set(), 0
        self._rotated_at = now

    def __len__(self) -> int:
        return len(self._recent) + len(self._earlier)
