"""Whether a key has values in several partitions of a changelog: a partial result in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from queryable.console.guesses import Sampled
from queryable.console.guessing import BARE


class Several(NamedTuple):
    """`keys`: how many have that; the first of them, and where it is."""

    keys: int
    key: bytes
    partitions: list[int]

    def __str__(self) -> str:
        where = ", ".join(map(str, self.partitions))
        return f"{self.keys} keys have values in several partitions ({self.key!r} in {where})"


def in_several(store: str, keyed: Sequence[Sampled]) -> Several | None:
    """Of records that are in the order of their log, partition by partition.

    A window counts by itself; sessions and versions depend on those of the same key.
    """
    bare = BARE[store] if store in ("session", "versioned") else bytes
    is_live = {(r.key or b"", r.partition): r.value is not None for r in keyed}
    found: defaultdict[bytes, set[int]] = defaultdict(set)
    for (key, partition), live in is_live.items():
        if live:
            found[bare(key)].add(partition)
    several = [(key, sorted(those)) for key, those in found.items() if len(those) > 1]
    return Several(len(several), *several[0]) if several else None
