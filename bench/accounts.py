"""The records of the topic whose values are asked for: ten accounts of each owner, in 256 cities.

Views of the topic differ in what they declare: the types of fields, and indexes.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.records import Table, balance, digest

_PER_OWNER = 10
CITIES = 256
LEAST_BALANCE = 60_000
SCANNED = f"balance > {LEAST_BALANCE} and city = '{{}}'"
"""A condition on two fields, with a place for a city."""
BY_OWNER, BY_CITY = "owner = 'owner-%07d'", "city = 'c%02x'"
"""Conditions that an index of one field decides. `%` stands for a number of an owner or city."""
_FIELDS = """
[views.{0}.fields]
id = "int"
owner = "string"
city = "string"
balance = "int"
"""


@dataclass(frozen=True, slots=True)
class Accounts(Table):
    """A view of the topic. `declared`: whether it has the types of its fields. `indexes`: the
    fields that have an index, whose name is that of the field."""

    declared: bool = False
    indexes: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        return "bench-accounts"

    @property
    def owners(self) -> int:
        return self.count // _PER_OWNER

    def owner(self, number: int) -> bytes:
        """The field `owner` of an account."""
        return b"owner-%07d" % (number % self.owners)

    def value(self, number: int) -> bytes:
        """About 120 bytes of JSON."""
        return b'{"id":%d,"owner":"%b","city":"%b","balance":%d,"note":"%b"}' % (
            number, self.owner(number), city(number), balance(number),
            digest(number)[2:22].hex().encode(),
        )  # fmt: skip

    def views_toml(self) -> str:
        fields = _FIELDS.format(self.view) if self.declared else ""
        indexes = "".join(f'{name} = ["{name}"]\n' for name in self.indexes)
        head = f"[views.{self.view}.indexes]\n" if indexes else ""
        # a super call without arguments does not work in a dataclass with slots
        return Table.views_toml(self) + fields + head + indexes


def city(number: int) -> bytes:
    """The field `city` of an account: one of 256 texts of three characters."""
    return b"c%02x" % digest(number)[1]


def expected_count(table: Table, wanted: bytes) -> int:
    """The number of accounts that meet `SCANNED`."""
    return sum(
        city(number) == wanted and balance(number) > LEAST_BALANCE for number in range(table.count)
    )


def expected_items(table: Accounts, numbers: list[int]) -> bytes:
    """The start of the answer with these accounts."""
    items = [b'{"key":"customer-%07d","value":%b}' % (n, table.value(n)) for n in numbers]
    return b'{"items":[%b]' % b",".join(items)
