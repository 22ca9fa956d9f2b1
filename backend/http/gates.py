"""Limits on concurrent requests."""

from __future__ import annotations

from collections import Counter

from backend.queries.turns import INSTANCES, this_sender
from model.problems import Unavailable


class Gate:
    """Limits the concurrent requests of a kind; Unavailable above. Used in the event loop.

    One client address may use three quarters of the places, so it cannot keep others out.
    """

    def __init__(self, name: str, limit: int) -> None:
        """`name`: the kind of requests in the plural, for the error."""
        self.limit = limit
        self._name = name
        self._in_flight = 0
        self._of_senders: Counter[str] = Counter()
        self._share = limit - limit // 4

    def __enter__(self) -> None:
        sender = this_sender()
        of_sender = self._of_senders[sender]
        if self._in_flight >= self.limit or (of_sender >= self._share and sender != INSTANCES):
            raise Unavailable(
                "overloaded",
                f"Too many {self._name}: {self._in_flight} are in progress, "
                f"{of_sender} of the same sender.",
            )
        self._in_flight += 1
        self._of_senders[sender] = of_sender + 1

    def __exit__(self, *_: object) -> None:
        sender = this_sender()
        self._in_flight -= 1
        self._of_senders[sender] -= 1
        if not self._of_senders[sender]:
            del self._of_senders[sender]
