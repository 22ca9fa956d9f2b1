"""The partition of a key as an expression of Spark: murmur2, as ``model.partitioner`` computes it.

In ANSI mode an overflow is an error, and Spark has no unsigned numbers. So each 32-bit number is a
``bigint`` from 0 to 2^32 - 1, and products are computed from two halves of 16 bits.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from model.partitioner import SEED, M
from spark.formats.columns import in_steps

_U32 = 0xFFFFFFFF


def partition_of(key: Column, partitions: int) -> Column:
    """The murmur2 partition of a binary key: an ``int``; null if the key is null."""
    return ((murmur2(key).bitwiseAND(0x7FFFFFFF)) % partitions).cast("int")


def murmur2(key: Column) -> Column:
    """Kafka's 32-bit murmur2 hash of a binary key, unsigned: a ``bigint``."""
    length = F.octet_length(key)
    words = F.shiftright(length, 2)
    numbers = F.when(words > 0, F.sequence(F.lit(0), words - 1)).otherwise(
        F.array().cast("array<int>")
    )
    mixed = in_steps(
        numbers,
        lambda number: _little_endian(key, 4 * number + 1),
        _times,
        lambda product: product.bitwiseXOR(F.shiftright(product, 24)),
        _times,
    )
    start = length.cast("bigint").bitwiseXOR(SEED)
    words_hash = F.aggregate(mixed, start, lambda hashed, word: _times(hashed).bitwiseXOR(word))
    tail = F.when(length.bitwiseAND(3) > 0, _little_endian(key, F.shiftleft(words, 2) + 1, "0"))
    finished = in_steps(
        F.array(words_hash),
        lambda hashed: F.when(tail.isNull(), hashed).otherwise(_times(hashed.bitwiseXOR(tail))),
        lambda hashed: hashed.bitwiseXOR(F.shiftright(hashed, 13)),
        _times,
        lambda hashed: hashed.bitwiseXOR(F.shiftright(hashed, 15)),
    )
    return F.element_at(finished, 1)


def _little_endian(key: Column, start: Column, pad: str = "") -> Column:
    """Up to four bytes from ``start`` (the first is 1) as a number. ``pad``: fewer than four."""
    digits = F.hex(F.substr(key, start, F.lit(4)))
    if pad:
        digits = F.rpad(digits, 8, pad)
    reversed_bytes = F.concat(*(F.substring(digits, at, 2) for at in (7, 5, 3, 1)))
    return F.conv(reversed_bytes, 16, 10).cast("bigint")


def _times(number: Column) -> Column:
    """The low 32 bits of the product with murmur2's constant."""
    low = number.bitwiseAND(0xFFFF) * F.lit(M).cast("bigint")
    high = (F.shiftright(number, 16) * F.lit(M).cast("bigint")).bitwiseAND(0xFFFF)
    return (low + F.shiftleft(high, 16)).bitwiseAND(_U32)
