"""What is guessed of a topic, how sure that is, and from what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Sampled(NamedTuple):
    """A record; `timestamp` in ms."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


class Looked(NamedTuple):
    """Some of the newest records of a topic; of each partition the first offset that is there, and
    the one behind the last."""

    records: list[Sampled]
    spans: list[tuple[int, int]]


class Sure(IntEnum):
    """How sure a guess is."""

    GUESS = 0
    LIKELY = 1
    SURE = 2


@dataclass(frozen=True, slots=True)
class Guess:
    """One field of a view: None where the view has no such field. `why`: for a person."""

    value: str | None
    sure: Sure
    why: str = ""
