"""The records of the measured topic: as many different keys, 100 bytes each, known by number.

A record is a pure function of its number, so that whoever reads one back can tell if it is right.
"""

from __future__ import annotations

import hashlib
from functools import cache
from math import gcd

TOPIC = "bench-customers"
VIEW = "customers"
PATH = "/customers"
PARTITIONS = 6
SIZE = 100
"""Bytes of key and value together."""

_KEY_SIZE = 16

VIEWS_TOML = f"""[views.{VIEW}]
topic = "{TOPIC}"
path = "{PATH}"
key = "string"
value = "json"
"""


def key(number: int) -> bytes:
    """16 bytes; bench/keys.lua makes the same ones."""
    return b"customer-%07d" % number


def value(number: int) -> bytes:
    """84 bytes of JSON, most of which do not compress."""
    document = b'{"id":%d,"balance":%d,"note":"' % (number, balance(number))
    noise = _digest(number).hex().encode()
    return document + noise[: SIZE - _KEY_SIZE - len(document) - 2] + b'"}'


def balance(number: int) -> int:
    """What the record's value says there: one of 256 numbers."""
    return _digest(number)[0] * 1000


def _digest(number: int) -> bytes:
    return hashlib.blake2b(b"%d" % number, digest_size=32).digest()


def in_log_order(position: int, count: int) -> int:
    """The number of the record at `position` (0 to count - 1): each number once, scattered.

    Neighbours in the log are far apart in key order, as in life; records in key order would spare
    RocksDB its work.
    """
    return position * _step(count) % count


@cache
def _step(count: int) -> int:
    """Near the golden section of `count`, without a common divisor."""
    step = round(count * 0.618034)
    while gcd(step, count) != 1:
        step += 1
    return step
