"""Finds keys with values in several partitions of a changelog: a partial result in each.

No I/O.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from queryable.cli.inspection.record_keys import BARE_KEY
from queryable.cli.inspection.samples import SampledRecord


class DuplicateKeys(NamedTuple):
    """The number of such keys; the first of them and its partitions."""

    keys: int
    key: bytes
    partitions: list[int]

    def __str__(self) -> str:
        partitions = ", ".join(map(str, self.partitions))
        return f"{self.keys} keys have values in several partitions ({self.key!r} in {partitions})"


def find_duplicate_keys(store: str, keyed: Sequence[SampledRecord]) -> DuplicateKeys | None:
    """`keyed`: records with keys, in the order of their offsets within each partition.

    Windows of a key may be in several partitions; its sessions and versions may not.
    """
    bare_key = BARE_KEY[store] if store in ("session", "versioned") else bytes
    is_live = {(r.key or b"", r.partition): r.value is not None for r in keyed}
    partitions_of: defaultdict[bytes, set[int]] = defaultdict(set)
    for (key, partition), live in is_live.items():
        if live:
            partitions_of[bare_key(key)].add(partition)
    duplicates = [(key, sorted(those)) for key, those in partitions_of.items() if len(those) > 1]
    return DuplicateKeys(len(duplicates), *duplicates[0]) if duplicates else None
