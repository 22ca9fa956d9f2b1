"""The parameters of a query as typed values.

A malformed parameter is a BadRequest: a bound that is ignored would give a wrong answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from backend.queries.history import MAX_LIMIT
from backend.wire.scan import ALLOW, NEVER
from model.problems import BadRequest
from model.times import MAX_TIME, parse_time

DEFAULT_LIMIT = 100

_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_T = TypeVar("_T")


class Parameters:
    """The parameters of one request: percent-decoded bytes by name, each at most once."""

    def __init__(self, given: Mapping[str, bytes]) -> None:
        self._given = given

    def raw(self, name: str) -> bytes | None:
        """The decoded bytes; None if it is not given."""
        return self._given.get(name)

    def text(self, name: str) -> str | None:
        """The value as UTF-8 text; None if it is not given."""
        raw = self._given.get(name)
        try:
            return None if raw is None else raw.decode()
        except UnicodeDecodeError:
            raise BadRequest("bad-parameter", f"{name} is not UTF-8 text.") from None

    def choice(self, name: str, *allowed: str) -> str:
        """The value, one of `allowed`; the first of them if it is not given."""
        value = self._given.get(name, allowed[0].encode()).decode("latin-1")
        if value not in allowed:
            raise BadRequest("bad-parameter", f"{name}={value}: it is one of {', '.join(allowed)}.")
        return value

    def stale(self) -> str | None:
        """ALLOW, NEVER; None if it is not given."""
        return self.choice("stale", NEVER, ALLOW) if "stale" in self._given else None

    def limit(self) -> int:
        """DEFAULT_LIMIT if it is not given."""
        return self.parsed("limit", _limit) or DEFAULT_LIMIT

    def time(self, name: str) -> int | None:
        """Epoch ms; None if it is not given."""
        return self.parsed(name, parse_time)

    def parsed(self, name: str, parse: Callable[[str], _T]) -> _T | None:
        """The parsed value; None if it is not given. If `parse` raises ValueError, the client gets
        its message."""
        if name not in self._given:
            return None
        try:
            return parse(self._given[name].decode("latin-1"))
        except ValueError as e:
            raise BadRequest("bad-parameter", f"{name}: {e}.") from None


def whole_number(text: str) -> int:
    """From 0 to 2^63 - 1. Raises ValueError."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return within_64_bits(int(text))


def within_64_bits(number: int) -> int:
    """The number. Raises ValueError if it is too large."""
    if number > MAX_TIME:
        raise ValueError(f"{number} has more than 64 bits")
    return number


def _limit(text: str) -> int:
    number = whole_number(text)
    if not 1 <= number <= MAX_LIMIT:
        raise ValueError(f"{number} is not from 1 to {MAX_LIMIT}")
    return number
