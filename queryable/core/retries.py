"""How often a client may ask again, so that many of them do not bring down what is slow already.

A retry costs a token, an answer earns a tenth of one: in the long run at most a tenth more requests
than without. Source: gRPC's retry throttling (proposal A6).
"""

from __future__ import annotations

_MOST = 10.0
_EARNED = 0.1


class RetryBudget:
    def __init__(self, tokens: float = _MOST) -> None:
        self._most = tokens
        self._tokens = tokens

    def earn(self) -> None:
        self._tokens = min(self._most, self._tokens + _EARNED)

    def spend(self) -> bool:
        """Whether one more try may be made."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
