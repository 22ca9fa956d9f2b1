"""Records of raw topics from a seed: duplicates, late and malformed ones, tombstones. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from model.partitioner import partition_of
from tests.support.spark.examples import flight
from tests.support.spark.logs import TEN, Shipped, shipped

PARTITIONS = 3
_MURMUR2 = partition_of("murmur2")

RawRecord = tuple[bytes | None, bytes | None, int, int]
"""Key, value, timestamp in ms, and partition."""

_DESTINATIONS = ["IAH", "ORD", "BOS", "ATL", "MIA", "SFO", "LAX", "DEN", "SEA", "JFK", "PHX"]
_CARRIERS = ["UA", "AA", "DL", "B6"]
_AIRCRAFT = [f"N{number}" for number in range(80)]
_CUSTOMERS = [f"{letter}{number}" for letter in "ABC" for number in range(8)]
_WORDS = [
    "lambda",
    "yield",
    "Yield's",
    "İ",
    "ß",
    "return_",
    "42",
    "class;",
    "(async)",
    "é",
    "naïve",
    "Ⅷ",
    "of",
    "the",
    "a",
    "to",
    "in",
    "for",
]
_MAX_KEPT = 2_000  # earlier records that can be repeated

_DAY = 24 * 3600
_HOUR = 3600
_MAX_DISORDER = 12 * _HOUR  # of the timestamps in a partition


class Generator:
    """Endless records of one raw topic; the same for the same seed."""

    share = 1.0
    """Of the usual number of records."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self._earlier: list[RawRecord] = []

    def take(self, count: int) -> list[RawRecord]:
        return [self._next() for _ in range(count)]

    def _next(self) -> RawRecord:
        self.count += 1
        chance = self.random.random()
        if chance < 0.1 and self._earlier:
            return self._repeated(self.random.choice(self._earlier))
        if chance < 0.12:
            return self._malformed()
        if chance < 0.14:
            return self._tombstone()
        made = self._record()
        if len(self._earlier) < _MAX_KEPT:
            self._earlier.append(made)
        else:
            self._earlier[self.random.randrange(_MAX_KEPT)] = made
        return made

    def _record(self) -> RawRecord:
        raise NotImplementedError

    def _repeated(self, record: RawRecord) -> RawRecord:
        """A duplicate: the same key and value; the timestamp may differ."""
        return record

    def _malformed(self) -> RawRecord:
        key, value, at, partition = self._record()
        assert value is not None
        return key, self.random.choice(self._broken(value)), at, partition

    def _broken(self, value: bytes) -> list[bytes]:
        return [b"", b"[]", b"\xff\xfe", value[:-1], value + b"}", b"null"]

    def _tombstone(self) -> RawRecord:
        key, _, at, partition = self._record()
        return key, None, at, partition


class Flights(Generator):
    """Late records, records that change the destination, and cancelled flights, in any order. The
    key is the aircraft, and decides the partition."""

    def _record(self) -> RawRecord:
        chosen = self.random
        number = chosen.randrange(60)
        day = min(int(chosen.expovariate(1 / 3)), 27)
        changes: dict[str, Any] = {
            "flight": number,
            "carrier": chosen.choice(_CARRIERS),
            "dest": chosen.choice(_DESTINATIONS),
            "tailnum": chosen.choice(_AIRCRAFT),
            "dep_delay": chosen.randrange(-5, 600),
            "minute": number,
            "time_hour": f"2013-01-{day + 1:02}T{chosen.randrange(24):02}:00:00Z",
        }
        if chosen.random() < 0.03:
            changes |= {"dep_time": None, "dep_delay": None}
        key, value = flight(**changes)
        assert key is not None
        at = 1000 * (TEN + self.count + chosen.randrange(-500, 500))
        return key, value, at, _MURMUR2(key, PARTITIONS)

    def _repeated(self, record: RawRecord) -> RawRecord:
        key, value, at, partition = record
        return key, value, at + self.random.choice([0, 0, 60_000]), partition

    def _broken(self, value: bytes) -> list[bytes]:
        fields = json.loads(value)
        wrong: list[dict[str, Any]] = [
            {"tailnum": None},
            {"minute": 60},
            {"flight": "12"},
            {"time_hour": "yesterday"},
            {"dep_time": 517, "dep_delay": None},
        ]
        return super()._broken(value) + [json.dumps({**fields, **each}).encode() for each in wrong]


class Texts(Generator):
    """Lines of words. A line that is sent twice counts twice."""

    def _record(self) -> RawRecord:
        words = self.random.choices(_WORDS, k=self.random.randrange(1, 12))
        words.append(f"word{int(self.random.paretovariate(1)) % 5000}")
        at = 1000 * (TEN + self.count)
        return None, " ".join(words).encode(), at, self.random.randrange(PARTITIONS)

    def _broken(self, value: bytes) -> list[bytes]:
        return [b"\xff", b"\xed\xa0\x80 surrogate", value + b" " + b"x" * 1001]

    def _tombstone(self) -> RawRecord:
        _, _, at, partition = self._record()
        return None, None, at, partition


class Requests(Generator):
    """Lines of an access log. The times of the three partitions advance at different speeds: the
    first slowly, the second fast, the third in jumps. Some lines are late, some too late."""

    def __init__(self, seed: int | str) -> None:
        super().__init__(seed)
        self._seconds = [0.0] * PARTITIONS
        self._numbers = 0

    def _record(self) -> RawRecord:
        chosen = self.random
        partition = chosen.randrange(PARTITIONS)
        jump = chosen.random() < 0.002 and partition == 2
        step = (8.0, 20.0, 1.0)[partition]
        self._seconds[partition] += 8 * _HOUR if jump else chosen.expovariate(1 / step)
        at = int(self._seconds[partition])
        # behind its record, within the bounds of lateness and earliness
        behind = chosen.choice([0, 0, 0, 2, 30, 900, _HOUR - 1, _HOUR, -5, -_HOUR])
        disorder = chosen.randrange(-300, 300)  # of the timestamps in a partition
        return self._line(at + disorder - behind, behind, partition)

    def _line(self, second: int, behind: int, partition: int, **changes: Any) -> Shipped:
        self._numbers += 1
        often = self.random.random() < 0.3
        client = f"10.0.0.{self.random.randrange(5)}" if often else self._rare_client()
        size = self.random.choice([0, 100, 4096, 2**31, 2**40 - 1])
        return shipped(
            self._numbers, second, partition,
            behind=behind, client=client, **{"bytes": size, **changes},
        )  # fmt: skip

    def _rare_client(self) -> str:
        return f"10.1.{self.random.randrange(4)}.{self.random.randrange(100)}"

    def _repeated(self, record: RawRecord) -> RawRecord:
        """Also in another partition, and later; perhaps too late to count again."""
        key, value, at, partition = record
        at += 1000 * self.random.choice([0, 5, _HOUR // 2, _HOUR, 2 * _HOUR])
        partition = self.random.choice([partition, *range(PARTITIONS)])
        if abs(at / 1000 - TEN - self._seconds[partition]) > _MAX_DISORDER:
            return self._record()  # the job would drop such records
        return key, value, at, partition

    def _malformed(self) -> RawRecord:
        chance = self.random.random()
        if chance > 0.5:
            return super()._malformed()
        partition = self.random.randrange(PARTITIONS)
        behind = _HOUR + 1 + self.random.randrange(_DAY)
        if chance > 0.4:  # too early
            behind = -behind
        return self._line(int(self._seconds[partition]) - behind, behind, partition)

    def _broken(self, value: bytes) -> list[bytes]:
        fields = json.loads(value)
        wrong: list[dict[str, Any]] = [{"bytes": 2**40}, {"bytes": -1}, {"client": ""}, {"time": 5}]
        return super()._broken(value) + [json.dumps({**fields, **each}).encode() for each in wrong]


class Table(Generator):
    """Rows of a table that change now and then. The key decides the partition."""

    share = 0.05
    keys: Sequence[str]
    key_name: str
    fields: Sequence[str] = ("name",)

    def _record(self) -> RawRecord:
        key = self.random.choice(self.keys)
        row: dict[str, Any] = {self.key_name: key, "unused": self.count}
        for name in self.fields:
            row[name] = f"{name} {self.random.randrange(99)} Ⅷ"
        return self._placed(key, row)

    def _placed(self, key: str, row: dict[str, Any]) -> RawRecord:
        at = 1000 * (TEN + self.count)
        return key.encode(), json.dumps(row).encode(), at, _MURMUR2(key.encode(), PARTITIONS)

    def _broken(self, value: bytes) -> list[bytes]:
        wrong = [{**json.loads(value), self.key_name: other} for other in (None, 5, [])]
        return super()._broken(value) + [json.dumps(each).encode() for each in wrong]


class Airlines(Table):
    keys = _CARRIERS[1:]  # the first one stays unknown
    key_name = "carrier"


class Airports(Table):
    keys = _DESTINATIONS[1:]
    key_name = "faa"


class Planes(Table):
    keys = _AIRCRAFT[5:]
    key_name = "tailnum"
    fields = ("manufacturer", "model")

    def _placed(self, key: str, row: dict[str, Any]) -> RawRecord:
        more = {"year": self.random.choice([None, 1999, 2004]), "seats": self.random.randrange(300)}
        return super()._placed(key, {**row, **more})


class Orders(Table):
    """A table whose rows often get another foreign key."""

    share = 0.5
    keys = tuple(f"order {number}" for number in range(300))
    key_name = "id"

    def _placed(self, key: str, row: dict[str, Any]) -> RawRecord:
        customer = self.random.choice([*_CUSTOMERS, "unknown", None])
        return super()._placed(key, {"customer": customer, "amount": self.random.randrange(1000)})

    def _broken(self, value: bytes) -> list[bytes]:
        wrong: list[dict[str, Any]] = [{"amount": 1000}, {"amount": None}, {"customer": 5}]
        fields = json.loads(value)
        broken = Generator._broken(self, value)
        return broken + [json.dumps({**fields, **each}).encode() for each in wrong]


class Customers(Table):
    """A table that many orders refer to."""

    keys = _CUSTOMERS
    key_name = "name"

    def _placed(self, key: str, row: dict[str, Any]) -> RawRecord:
        name = f"{key} {self.random.randrange(9)} Ⅷ"
        return super()._placed(key, {"name": name, "age": self.random.choice([None, 10, 30])})


class Countries(Table):
    keys = ("A", "B", "D", "E")
    key_name = "name"


class Sales(Generator):
    """Events of many years, in any order, in records of today. The key decides the partition."""

    share = 0.5

    def _record(self) -> RawRecord:
        key = f"key{self.random.randrange(200)}".encode()
        second = TEN - self.random.randrange(20 * 365) * _DAY - self.random.randrange(_DAY)
        sale = {
            "id": self.count,
            "shop": self.random.choice(_CARRIERS).lower(),
            "at": datetime.fromtimestamp(second, UTC).isoformat(),
            "price": self.random.randrange(10_000) / 100,
        }
        at = 1000 * (TEN + self.count)
        return key, json.dumps(sale).encode(), at, _MURMUR2(key, PARTITIONS)

    def _broken(self, value: bytes) -> list[bytes]:
        sale = json.loads(value)
        wrong: list[dict[str, Any]] = [
            {"price": None},
            {"id": 1.5},
            {"at": "2026-01-01"},
            {"at": datetime.fromtimestamp(TEN + 2 * 365 * _DAY, UTC).isoformat()},
        ]
        return super()._broken(value) + [json.dumps({**sale, **each}).encode() for each in wrong]


GENERATORS: dict[str, Callable[[int | str], Generator]] = {
    "flights": Flights,
    "texts": Texts,
    "weblog": Requests,
    "planes": Planes,
    "airlines": Airlines,
    "us-airports": Airports,
    "orders": Orders,
    "customers": Customers,
    "countries": Countries,
    "sales": Sales,
}
"""By raw topic."""
