"""The partition of a key, computed as Kafka's producers compute it.

`murmur2` is the default of the Java client (`Utils.toPositive(Utils.murmur2(key)) % n`). `crc32` is
the default of librdkafka (`consistent_random`, for a non-null key). `fnv1a` is the default of
Sarama, and available in librdkafka. Tests check all three against vectors made with the clients
(tests/vectors).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

M = 0x5BD1E995
SEED = 0x9747B28C
_U32 = 0xFFFFFFFF

# _WORDS[n] unpacks n words of four bytes from the start of a key
_WORDS = tuple(struct.Struct(f"<{words}I").unpack_from for words in range(65))


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit murmur2 hash of `key`, unsigned."""
    length = len(key)
    words = length >> 2
    unpack = _WORDS[words] if words < len(_WORDS) else struct.Struct(f"<{words}I").unpack_from
    h = SEED ^ length
    for k in unpack(key):
        k = k * M & _U32
        h = (h * M ^ (k ^ (k >> 24)) * M) & _U32
    if length & 3:
        h = (h ^ int.from_bytes(key[words << 2 :], "little")) * M & _U32
    h = (h ^ (h >> 13)) * M & _U32
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
    # librdkafka uses the absolute value of the signed hash, not its low 31 bits
    h = fnv1a(key)
    return (h if h < 0x80000000 else 0x100000000 - h) % partitions


_PARTITION_OF: dict[str, Callable[[bytes, int], int]] = {
    "murmur2": _murmur2_partition,
    "crc32": _crc32_partition,
    "fnv1a": _fnv1a_partition,
}

PARTITIONERS = tuple(_PARTITION_OF)


def partition_of(partitioner: str) -> Callable[[bytes, int], int]:
    """The function (key, number of partitions) -> partition of a partitioner in PARTITIONERS."""
    return _PARTITION_OF[partitioner]


def puts_anywhere(partitioner: str, key: bytes) -> bool:
    """Whether producers with this partitioner may put records of the key into any partition.

    librdkafka's default, `consistent_random`, treats an empty key as no key (`murmur2_random` and
    `fnv1a_random` do not).
    """
    return not key and partitioner == "crc32"
