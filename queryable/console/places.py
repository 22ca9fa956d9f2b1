"""Keys that need not be there, between two that are: places at which to look into a view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile
from random import Random
from typing import Any

_LENGTH = 4
_TRIES = 100


def between(first: Any, last: Any, known: Sequence[Any], dice: Random) -> Any:
    """A random key from `first` to `last`. Of text and bytes, it is made of what `known` keys are
    made of: so places lie about as evenly as keys do."""
    if isinstance(first, str):
        numbers = [[ord(each) for each in key] for key in (first, last, *known)]
        return "".join(map(chr, _drawn(numbers, dice)))
    if isinstance(first, (bytes, bytearray)):
        return bytes(_drawn([list(key) for key in (first, last, *known)], dice))
    if isinstance(first, float):
        is_usual = math.isfinite(last - first)
        return dice.uniform(first, last) if is_usual else dice.choice(known)
    return dice.randint(first, last)


def _drawn(keys: list[list[int]], dice: Random) -> list[int]:
    """What the first two begin with alike, then what there is in any behind that."""
    first, last = keys[:2]
    alike = list(takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    begin = [number for number, _ in alike]
    alphabet = sorted({number for key in keys for number in key[len(begin) :]})
    for _ in range(_TRIES if alphabet else 0):
        drawn = begin + dice.choices(alphabet, k=_LENGTH)
        if first <= drawn <= last:
            return drawn
    return dice.choice(keys)
