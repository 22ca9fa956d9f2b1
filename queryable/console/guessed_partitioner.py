"""Which partitioner put the records of a topic where they are."""

from __future__ import annotations

from collections.abc import Sequence

from model.partitioner import PARTITIONERS, partition_of
from queryable.console.guesses import Guess, Sure

# that many keys are where a partitioner puts them by chance once in 2^16 topics, or more seldom
_ENOUGH = 16


def fitting(keys: Sequence[tuple[int, bytes]], partitions: int) -> dict[str, int]:
    """How many of the (partition, bare key) each partitioner puts there."""
    return {
        name: sum(place(key, partitions) == partition for partition, key in keys)
        for name, place in ((name, partition_of(name)) for name in PARTITIONERS)
    }


def partitioner_of(keys: Sequence[tuple[int, bytes]], partitions: int) -> Guess:
    """The one that fits all of the (partition, bare key); `none` where there is no such.

    An empty key tells nothing: librdkafka's default takes it for none, and puts it anywhere.
    """
    different = sorted({(partition, key) for partition, key in keys if key})
    if partitions <= 1:
        return Guess("murmur2", Sure.SURE, "one partition: every partitioner will do")
    if not different:
        return Guess("murmur2", Sure.GUESS, "Java's default; the topic has no key to tell")
    found = fitting(different, partitions)
    best = max(found, key=found.__getitem__)
    count = f"{found[best]} of {len(different)} keys are where {best} puts them"
    if found[best] < len(different):
        return Guess("none", Sure.LIKELY, f"{count}: keys may be in any partition")
    return Guess(best, Sure.SURE if len(different) >= _ENOUGH else Sure.GUESS, count)
