"""The partitions of many keys at once, with NumPy. `partitioner` does not need NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from model.partitioner import SEED, M, murmur2, partition_of

# Keys are hashed column by column in a matrix that is as wide as the longest key. Longer keys than
# this (in bytes) are rare, and one of them would widen the whole matrix.
_MAX_MATRIX_WIDTH = 128


def murmur2_batch(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """murmur2 of many keys at once: uint32, shape (len(keys),).

    Each step of the loop hashes one four-byte word of all keys that are long enough.
    """
    count = len(keys)
    lengths = np.fromiter(map(len, keys), dtype=np.uint32, count=count)
    width = int(lengths.max(initial=0))
    if width > _MAX_MATRIX_WIDTH:
        return np.fromiter(map(murmur2, keys), dtype=np.uint32, count=count)
    words = width // 4 + 1  # one more, for the last one to three bytes of the longest key
    shortest = int(lengths.min(initial=width))
    padded = keys if width == shortest and not width & 3 else None
    if padded is None:
        padded, row = [k.ljust(words * 4, b"\0") for k in keys], words
    else:
        row = width // 4  # keys consist of complete words, so no padding is needed
    # transposed, so that each word is contiguous in memory
    columns = np.frombuffer(b"".join(padded), dtype="<u4").reshape(count, row).T.copy()
    m = np.uint32(M)
    h = np.uint32(SEED) ^ lengths
    mixed = columns * m
    mixed ^= mixed >> np.uint32(24)
    mixed *= m
    whole = lengths >> np.uint32(2)
    for i in range(width // 4):
        if i < shortest // 4:  # all keys have this word
            h *= m
            h ^= mixed[i]
        else:
            h = np.where(i < whole, (h * m) ^ mixed[i], h)
    if row == words:
        # the padding is zero, so the last word contains only the remaining one to three bytes
        rest = columns[whole, np.arange(count)]
        h = np.where(lengths & np.uint32(3), (h ^ rest) * m, h)
    h ^= h >> np.uint32(13)
    h *= m
    h ^= h >> np.uint32(15)
    return h


def partitions_of_batch(
    partitioner: str, keys: Sequence[bytes], partitions: int
) -> NDArray[np.int64]:
    """The partition of each key: int64, shape (len(keys),)."""
    if partitioner == "murmur2":
        hashes = murmur2_batch(keys) & np.uint32(0x7FFFFFFF)
        return (hashes % np.uint32(partitions)).astype(np.int64)
    function = partition_of(partitioner)
    return np.fromiter((function(k, partitions) for k in keys), dtype=np.int64, count=len(keys))
