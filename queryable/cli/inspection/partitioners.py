"""Infers the partitioner of a topic's producers from a sample. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from model.partitioner import PARTITIONERS, partition_of
from queryable.cli.inspection.inference import Confidence, Inference

# the chance that this many keys fit a partitioner at random is at most 2^-16
_ENOUGH_KEYS = 16


def count_matches(keys: Sequence[tuple[int, bytes]], partitions: int) -> dict[str, int]:
    """For each partitioner, the number of (partition, bare key) pairs that it agrees with."""
    return {
        name: sum(partitioner(key, partitions) == partition for partition, key in keys)
        for name, partitioner in ((name, partition_of(name)) for name in PARTITIONERS)
    }


def infer_partitioner(keys: Sequence[tuple[int, bytes]], partitions: int) -> Inference:
    """The partitioner that agrees with all (partition, bare key) pairs; `none` if there is none.

    Empty keys are ignored: librdkafka's default partitioner puts them into any partition.
    """
    distinct = sorted({(partition, key) for partition, key in keys if key})
    if partitions <= 1:
        return Inference("murmur2", Confidence.CERTAIN, "the topic has one partition")
    if not distinct:
        return Inference(
            "murmur2", Confidence.GUESS, "the default of the Java client; the sample has no keys"
        )
    matches = count_matches(distinct, partitions)
    best = max(matches, key=matches.__getitem__)
    count = f"{matches[best]} of {len(distinct)} keys are in the partition of {best}"
    if matches[best] < len(distinct):
        return Inference("none", Confidence.LIKELY, f"{count}: keys may be in any partition")
    return Inference(
        best, Confidence.CERTAIN if len(distinct) >= _ENOUGH_KEYS else Confidence.GUESS, count
    )
