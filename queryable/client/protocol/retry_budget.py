"""A budget of retries, so that many clients do not overload a deployment that is already slow.

A retry costs one token and a response earns a tenth of one, so retries add at most a tenth to the
number of requests in the long run. Source: gRPC's retry throttling (proposal A6).
"""

from __future__ import annotations

_MAX_TOKENS = 10.0
_EARNED_PER_RESPONSE = 0.1


class RetryBudget:
    def __init__(self, tokens: float = _MAX_TOKENS) -> None:
        self._max_tokens = tokens
        self._tokens = tokens

    def earn(self) -> None:
        """Counts a response."""
        self._tokens = min(self._max_tokens, self._tokens + _EARNED_PER_RESPONSE)

    def spend(self) -> bool:
        """Takes a token for a retry; False if there is none."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
