"""The numbered records of the measured topics. Each record has a different key.

A record is a pure function of its number, so that a reader can check it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import gcd

from local.demo.datasets import Record

SIZE = 100
"""Bytes of key and value together, unless a table has another size of values."""

_KEY_SIZE = 16


@dataclass(frozen=True, slots=True)
class Table:
    """A topic of `count` records, and its view. `value_size`: bytes of a value; 0: values as
    `value` makes them."""

    view: str
    count: int
    partitions: int = 6
    value_size: int = 0

    @property
    def topic(self) -> str:
        return f"bench-{self.view}"

    @property
    def path(self) -> str:
        return f"/{self.view}"

    def value(self, number: int) -> bytes:
        return value_of_size(number, self.value_size) if self.value_size else value(number)

    def size(self) -> int:
        return self.count

    def views_toml(self) -> str:
        """The text about the view in a views.toml."""
        return (
            f'[views.{self.view}]\ntopic = "{self.topic}"\npath = "{self.path}"\n'
            'key = "string"\nvalue = "json"\n'
        )

    def records(self) -> Iterator[Record]:
        """All records, in the order of the log."""
        for position in range(self.count):
            number = number_at(position, self.count)
            yield Record(key(number), self.value(number))


VIEW = "customers"
PARTITIONS = 6


def customers(count: int) -> Table:
    """The table that most rows measure."""
    return Table(VIEW, count, PARTITIONS)


def views_toml(tables: Iterable[Table]) -> str:
    """A views.toml with the views of these tables."""
    return "\n".join(table.views_toml() for table in tables)


def key(number: int) -> bytes:
    """The record's key: 16 bytes. bench/requests.lua makes the same keys."""
    return b"customer-%07d" % number


def document(table: Table, number: int) -> bytes:
    """The body of the answer to a point read."""
    return b'{"key":"%b","value":%b}' % (key(number), table.value(number))


def value(number: int) -> bytes:
    """The record's value: 84 bytes of JSON that hardly compress."""
    start = b'{"id":%d,"balance":%d,"note":"' % (number, balance(number))
    noise = digest(number).hex().encode()
    return start + noise[: SIZE - _KEY_SIZE - len(start) - 2] + b'"}'


def value_of_size(number: int, size: int) -> bytes:
    """A JSON text of `size` bytes, half of which do not compress."""
    noise = hashlib.shake_256(b"%d" % number).hexdigest(size // 2)
    return b'"%b"' % noise[: size - 2].encode()


def balance(number: int) -> int:
    """The field `balance` of the record's value: one of 256 numbers."""
    return digest(number)[0] * 1000


def digest(number: int) -> bytes:
    """32 bytes that look random."""
    return hashlib.blake2b(b"%d" % number, digest_size=32).digest()


def number_at(position: int, count: int) -> int:
    """The number of the record at `position` (0 to count - 1) of the log; each number occurs once.

    Neighbours in the log are far apart in key order, as in real topics: RocksDB would have little
    to sort if records were written in key order.
    """
    return position * _step_of(count) % count


@cache
def _step_of(count: int) -> int:
    """A number near the golden section of `count`, and coprime to it."""
    step = round(count * 0.618034)
    while gcd(step, count) != 1:
        step += 1
    return step
