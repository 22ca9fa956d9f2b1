"""Counts of the requests that this instance sends to other instances."""

from __future__ import annotations

from collections import Counter
from typing import Final

ANSWERED: Final = "answered"
REFUSED: Final = "refused"
FAILED: Final = "failed"
"""The outcomes of a request: an answer other than 503, a 503, or no answer in time."""

FORWARD: Final = "forward"
_INTERNAL: Final = b"/internal/"


class PeerCounts:
    """Counts since the start. `requests`: by route and outcome. `retry_rounds`: how often a query
    asked replicas again. Only the event loop writes."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.retry_rounds = 0

    def ended(self, target: bytes, status: int | None) -> None:
        """Count a request to another instance that has ended. `target`: its path. `status`: None if
        there was no answer in time."""
        # forwarded requests have any target that a client sends; internal requests have few targets
        route = target[1:].partition(b"?")[0].decode() if target.startswith(_INTERNAL) else FORWARD
        outcome = FAILED if status is None else REFUSED if status == 503 else ANSWERED
        self.requests[route, outcome] += 1
