"""A view with indexes, random updates of it, and a checker of answers to random conditions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.support.backends import Backend
from tests.support.client import Response
from tests.support.deployment import views_toml
from tests.support.topics import Log, ends_of, history, table_of

PARTITIONS = 2
KEYS = 20_000
DESTS = [f"D{number}" for number in range(200)]
MOVING = [f"moving {number}" for number in range(100)]
NDJSON = "application/x-ndjson"
FIELDS = """
[views.v.fields]
dest = "string?"
delay = "int?"
price = "double?"
tags = "strings?"
"""
BEFORE = 'by-dest = ["dest"]\nby-route = ["dest", "delay"]\nby-tag = ["tags", "dest"]\n'
AFTER = """
by-route = ["dest", "delay"]
by-price = ["price", "dest"]
by-delay = ["delay"]
by-tag = ["tags", "dest"]
"""
TAGS = [f"t{number}" for number in range(1_000)]

Row = Any
Predicate = Callable[[Row], bool]


def views(topic: str, indexes: str) -> str:
    return views_toml(v={"topic": topic}) + FIELDS + "[views.v.indexes]\n" + indexes


def some_records(count: int, seed: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Updates of random keys; a tenth are deletes, and some fields are missing or of other types.
    The moving keys always are on one of two dests."""
    chance = random.Random(seed)
    for key in MOVING:
        yield key.encode(), b'{"dest":"HERE"}'
    for _ in range(count):
        if chance.random() < 0.2:
            dest = chance.choice(("HERE", "THERE"))
            yield chance.choice(MOVING).encode(), json.dumps({"dest": dest}).encode()
            continue
        row: dict[str, Any] = {}
        if chance.random() < 0.95:
            row["dest"] = chance.choice(DESTS) if chance.random() < 0.98 else 7
        if chance.random() < 0.95:
            row["delay"] = chance.randrange(-500, 5_000)
        if chance.random() < 0.95:
            row["price"] = chance.randrange(4_000) / 4
        if chance.random() < 0.3:
            row["tags"] = chance.choices(TAGS, k=chance.randrange(5))
        value = None if chance.random() < 0.1 else json.dumps(row).encode()
        yield b"key %d" % chance.randrange(KEYS), value


def number_in(row: Row, name: str) -> float:
    return row.get(name, float("nan"))  # compared with any number, it is false


def some_condition(chance: random.Random) -> tuple[str, Predicate]:
    """A condition, and what it means in Python."""
    one, other = chance.sample(DESTS, 2)
    low = chance.randrange(-500, 5_000)
    high = low + chance.randrange(60)
    price = chance.randrange(4_000) / 4
    tag = chance.choice(TAGS)
    choices: list[tuple[str, Predicate]] = [
        (f"dest = '{one}'", lambda row: row.get("dest") == one),
        (f"dest in ('{one}', '{other}')", lambda row: row.get("dest") in (one, other)),
        (
            f"dest = '{one}' and delay > {low}",
            lambda row: row.get("dest") == one and number_in(row, "delay") > low,
        ),
        (
            f"price > 5 and dest = '{one}' and delay = {low}",
            lambda row: (
                row.get("dest") == one and row.get("delay") == low and number_in(row, "price") > 5
            ),
        ),
        (
            f"delay between {low} and {high}",
            lambda row: low <= number_in(row, "delay") <= high,
        ),
        (f"delay >= {4_990 - high % 9}", lambda row: number_in(row, "delay") >= 4_990 - high % 9),
        (f"price = {price}", lambda row: row.get("price") == price),
        (
            f"price < 4 and delay > {low}",
            lambda row: number_in(row, "price") < 4 and number_in(row, "delay") > low,
        ),
        (f"contains(tags, '{tag}')", lambda row: tag in row.get("tags", [])),
        (
            f"dest = '{one}' and contains(tags, '{tag}')",
            lambda row: tag in row.get("tags", []) and row.get("dest") == one,
        ),
        (
            f"dest is null and delay < {low % 300}",
            lambda row: (
                not isinstance(row.get("dest"), str) and number_in(row, "delay") < low % 300
            ),
        ),
    ]
    return chance.choice(choices)


def where(condition: str, what: str = "keys", more: str = "") -> str:
    return f"/views/v/{what}?where={quote(condition)}{more}"


@dataclass
class Checker:
    """Compares answers with the rows of the topic, and counts what it has seen."""

    servers: str
    topic: str
    chance: random.Random
    answers: int = 0
    by_index: int = 0
    kills: int = 0
    unfinished_builds: int = 0
    wrong: list[str] = field(default_factory=list)

    def kill(self, backend: Backend) -> None:
        backend.kill()
        self.kills += 1

    def wait_end(self, backend: Backend) -> list[Log]:
        """Wait until all records are applied; the records."""
        log = history(self.servers, self.topic, PARTITIONS)
        backend.wait_ready()
        backend.wait_positions("v", ends_of(log))
        return log

    def check(self, backend: Backend, conditions: int = 25) -> None:
        """Wait until all records are applied, and compare answers."""
        table = table_of(self.wait_end(backend))
        for _ in range(conditions):
            condition, predicate = some_condition(self.chance)
            expected = {key: row for key, row in table.items() if predicate(row)}
            self._compare(backend, condition, expected)
        assert not self.wrong, self

    def _compare(self, backend: Backend, condition: str, expected: dict[str, Row]) -> None:
        lines = backend.get(where(condition), accept=NDJSON)
        items = [json.loads(line) for line in lines.body.splitlines()]
        page, first = self._first_page(backend, condition)
        count = backend.get(where(condition, "count", "&exact=true"))
        rows = {item["key"]: item["value"] for item in items if "key" in item}
        in_order = sorted(expected, key=str.encode)
        self.answers += 3
        self.by_index += sum(
            "index" in answer.headers["Plan"] and "scan" not in answer.headers["Plan"]
            for answer in (lines, page, count)
        )
        if (rows, first) != (expected, in_order[:20]) or count.json()["count"] != len(expected):
            self.wrong.append(
                f"{condition}: {len(rows)} rows instead of {len(expected)}, "
                f"{'the same' if rows == expected else 'others'}; the first are {first}"
            )

    def _first_page(self, backend: Backend, condition: str) -> tuple[Response, list[str]]:
        """A page of 20 rows, and their keys. On a busy machine, it may end earlier, after a
        second."""
        first: list[str] = []
        cursor = ""
        while True:
            page = backend.get(where(condition, more=f"&limit={20 - len(first)}{cursor}"))
            document = page.json()
            first += [item["key"] for item in document["items"]]
            if document["next"] is None or len(first) == 20:
                return page, first
            cursor = f"&cursor={document['next']}"


def plan_of(backend: Backend, condition: str) -> str:
    answer = backend.try_get(where(condition, more="&limit=1"))
    return "" if answer is None or answer.status != 200 else str(answer.headers["Plan"])
