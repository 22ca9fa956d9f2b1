"""Random keys between two keys. A sample of a view is read from there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile
from random import Random
from typing import Any

_RANDOM_LENGTH = 4
_MAX_TRIES = 100


def random_key(first: Any, last: Any, known_keys: Sequence[Any], random: Random) -> Any:
    """A random key from `first` to `last`, which the view may not contain.

    A text or bytes key consists of characters of `known_keys`, so that random keys are distributed
    like real ones.
    """
    if isinstance(first, str):
        codes = [[ord(character) for character in key] for key in (first, last, *known_keys)]
        return "".join(map(chr, _random_codes(codes, random)))
    if isinstance(first, (bytes, bytearray)):
        return bytes(_random_codes([list(key) for key in (first, last, *known_keys)], random))
    if isinstance(first, float):
        is_finite = math.isfinite(last - first)
        return random.uniform(first, last) if is_finite else random.choice(known_keys)
    return random.randint(first, last)


def _random_codes(keys: list[list[int]], random: Random) -> list[int]:
    """The common prefix of the first two keys, then codes that follow it in some key."""
    first, last = keys[:2]
    common = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    prefix = [code for code, _ in common]
    alphabet = sorted({code for key in keys for code in key[len(prefix) :]})
    for _ in range(_MAX_TRIES if alphabet else 0):
        codes = prefix + random.choices(alphabet, k=_RANDOM_LENGTH)
        if first <= codes <= last:
            return codes
    return random.choice(keys)
