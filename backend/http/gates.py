"""Bounds on how many requests are answered at once."""

from __future__ import annotations

from model.problems import Unavailable


class Gate:
    """Lets so many requests of a kind in; the next one gets Unavailable. Used in the event loop."""

    def __init__(self, name: str, most: int) -> None:
        """`name`: of the requests, in the plural, for the error."""
        self.most = most
        self._name = name
        self._inside = 0

    def __enter__(self) -> None:
        if self._inside >= self.most:
            raise Unavailable(
                "overloaded", f"Too many {self._name}: {self._inside} are being answered already."
            )
        self._inside += 1

    def __exit__(self, *_: object) -> None:
        self._inside -= 1
