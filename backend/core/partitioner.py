"""Which partition a key belongs to, as Kafka's own producers decide it.

`murmur2` is the Java client's (`Utils.toPositive(Utils.murmur2(key)) % n`), `crc32` librdkafka's
default (`consistent_random` for a key that is there), `fnv1a` librdkafka's (Sarama's). All three
are pinned by vectors made by the clients themselves (tests/vectors).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

_M = 0x5BD1E995
_SEED = 0x9747B28C
_U32 = 0xFFFFFFFF

# Keys are hashed column by column over a matrix as wide as the longest: longer keys are rare,
# and would make it as wide as themselves.
_WIDEST_IN_MATRIX = 128


# each unpacks so many whole words from the start of a key
_WORDS = tuple(struct.Struct(f"<{words}I").unpack_from for words in range(65))


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit murmur2 of `key`, as an unsigned number."""
    length = len(key)
    words = length >> 2
    unpack = _WORDS[words] if words < len(_WORDS) else struct.Struct(f"<{words}I").unpack_from
    h = _SEED ^ length
    for k in unpack(key):
        k = k * _M & _U32
        h = (h * _M ^ (k ^ (k >> 24)) * _M) & _U32
    if length & 3:
        h = (h ^ int.from_bytes(key[words << 2 :], "little")) * _M & _U32
    h = (h ^ (h >> 13)) * _M & _U32
    return h ^ (h >> 15)


def fnv1a(key: bytes) -> int:
    """The 32-bit FNV-1a hash of `key`, unsigned."""
    h = 0x811C9DC5
    for byte in key:
        h = (h ^ byte) * 0x01000193 & _U32
    return h


def _murmur2_partition(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def _crc32_partition(key: bytes, partitions: int) -> int:
    return zlib.crc32(key) % partitions


def _fnv1a_partition(key: bytes, partitions: int) -> int:
    # librdkafka takes the absolute value of the hash as a signed number, not its low 31 bits
    h = fnv1a(key)
    return (h if h < 0x80000000 else 0x100000000 - h) % partitions


_PARTITION_OF: dict[str, Callable[[bytes, int], int]] = {
    "murmur2": _murmur2_partition,
    "crc32": _crc32_partition,
    "fnv1a": _fnv1a_partition,
}

PARTITIONERS = tuple(_PARTITION_OF)


def partition_of(partitioner: str) -> Callable[[bytes, int], int]:
    """The function (key, number of partitions) -> partition of a name in PARTITIONERS."""
    return _PARTITION_OF[partitioner]


def murmur2_batch(keys: Sequence[bytes]) -> NDArray[np.uint32]:
    """murmur2 of many keys at once: uint32, shape (len(keys),).

    A step of the loop hashes the same four bytes of all keys that have them.
    """
    count = len(keys)
    lengths = np.fromiter(map(len, keys), dtype=np.uint32, count=count)
    width = int(lengths.max(initial=0))
    if width > _WIDEST_IN_MATRIX:
        return np.fromiter(map(murmur2, keys), dtype=np.uint32, count=count)
    words = width // 4 + 1  # one to spare: the rest of the longest key is read there too
    shortest = int(lengths.min(initial=width))
    padded = keys if width == shortest and not width & 3 else None
    if padded is None:
        padded, row = [k.ljust(words * 4, b"\0") for k in keys], words
    else:
        row = width // 4  # whole words: nothing is left over, nothing to pad
    # word by word, each in one piece of memory
    columns = np.frombuffer(b"".join(padded), dtype="<u4").reshape(count, row).T.copy()
    m = np.uint32(_M)
    h = np.uint32(_SEED) ^ lengths
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
        # the padding is zeros, so the last word holds just the one to three bytes that are left
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
    function = _PARTITION_OF[partitioner]
    return np.fromiter((function(k, partitions) for k in keys), dtype=np.int64, count=len(keys))
