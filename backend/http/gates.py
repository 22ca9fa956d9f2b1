"""Limits on concurrent requests."""

from __future__ import annotations

from model.problems import Unavailable


class Gate:
    """Limits the concurrent requests of a kind; Unavailable above. Used in the event loop."""

    def __init__(self, name: str, limit: int) -> None:
        """`name`: the kind of requests in the plural, for the error."""
        self.limit = limit
        self._name = name
        self._in_flight = 0

    def __enter__(self) -> None:
        if self._in_flight >= self.limit:
            raise Unavailable(
                "overloaded", f"Too many {self._name}: {self._in_flight} are in progress."
            )
        self._in_flight += 1

    def __exit__(self, *_: object) -> None:
        self._in_flight -= 1
