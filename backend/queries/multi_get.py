"""Point reads of many keys of one view: what a batch costs is what is done here for each key.

The keys' partitions are told at once, and each store partition is asked once for all of its keys.
Wherever that does not tell it all, the keys are read one by one, as any point read is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from backend.queries.point import ViewReads
from backend.queries.routing import NotOwner, PartitionUnknown, ReadOptions
from model.problems import Problem, StoreClosedError, StoreError, Unavailable
from model.records import ENTRY_HEAD_SIZE

Outcome = bytes | None | Problem | NotOwner
"""A value as JSON; None for no such key; or what a read of the key alone would raise."""


def outcomes(
    reads: ViewReads, keys: Sequence[bytes], options: ReadOptions, roles: set[str]
) -> list[Outcome]:
    """One a key, in their order. Some 10 µs a key: callers with many keys give way between.

    The roles in which the keys' partitions are held here are added to `roles`, of those read.
    """
    try:
        by_partition = placed(reads, keys)
    except Unavailable as unavailable:
        return [unavailable] * len(keys)
    if by_partition is None:
        return [_one(reads, key, options, roles) for key in keys]
    found: list[Outcome] = [None] * len(keys)
    for partition, numbers in by_partition.items():
        of_partition = [keys[number] for number in numbers]
        theirs = _of_partition(reads, partition, of_partition, options, roles)
        for number, outcome in zip(numbers, theirs, strict=True):
            found[number] = outcome
    return found


def placed(reads: ViewReads, keys: Sequence[bytes]) -> dict[int, list[int]] | None:
    """Partition -> which of the keys it has, by number; None where only a read of each key can
    tell. Unavailable."""
    partitions = reads.partitions(keys)
    if partitions is None:
        return None
    by_partition: dict[int, list[int]] = {}
    for number, partition in enumerate(partitions):
        by_partition.setdefault(partition, []).append(number)
    return by_partition


def _of_partition(
    reads: ViewReads, partition: int, keys: list[bytes], options: ReadOptions, roles: set[str]
) -> list[Outcome]:
    try:
        held = reads.holder_of(partition, options)
    except (NotOwner, Unavailable) as e:
        return [e] * len(keys)
    try:
        stored = reads.look_up_many(held.store, keys)
        if None in stored:
            reads.refuse_doubtful(b"")
    except (StoreClosedError, StoreError, PartitionUnknown):
        return [_one(reads, key, options, roles) for key in keys]
    roles.add(held.role)
    found = [None if entry is None else entry[ENTRY_HEAD_SIZE:] for entry in stored]
    misses = found.count(None)
    reads.counts.missed += misses
    reads.counts.found += len(found) - misses
    if reads.view.value == "json":
        return cast(list[Outcome], found)
    return [None if value is None else _as_json(reads, value) for value in found]


def _as_json(reads: ViewReads, value: bytes) -> Outcome:
    try:
        return reads.value_json(value)
    except Problem as problem:  # of an Avro value whose schema is away
        reads.counts.found -= 1
        return problem


def _one(reads: ViewReads, key: bytes, options: ReadOptions, roles: set[str]) -> Outcome:
    try:
        held = reads.holder(key, options)
        value = reads.value(held, key)
        roles.add(held.role)
        return value
    except (Problem, NotOwner) as e:
        return e
