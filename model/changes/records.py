"""State that changes by records of a topic. Every instance reads the topic from its start. Pure.

Each record has the complete state of one name after a change, and counts only if its revision is
the next one. So all instances come to the same result, and of two changes at the same time only one
counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import orjson

MAX_RECORD_BYTES = 100_000


class Revised(Protocol):
    """A state with the number of changes that led to it."""

    @property
    def revision(self) -> int: ...


S = TypeVar("S", bound=Revised)


def fold(states: Mapping[str, S], name: str, state: S) -> Mapping[str, S] | None:
    """The states after a record; None if the record does not count, because another one with this
    revision came first. The first record of a name always counts."""
    previous = states.get(name)
    if previous is not None and state.revision != previous.revision + 1:
        return None
    return {**states, name: state}


def decode_object(value: bytes | str | None) -> dict[str, Any]:
    """The JSON object in the value of a record. Raises ValueError."""
    if value is None or len(value) > MAX_RECORD_BYTES:
        raise ValueError("the record has no value, or is too large")
    document = orjson.loads(value)
    if not isinstance(document, dict):
        raise ValueError("the record is not a JSON object")
    return document
