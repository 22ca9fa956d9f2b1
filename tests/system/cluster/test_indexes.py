"""Indexes after kill -9: during the first load, during writes, and while an index is built."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote

from rocksdict import AccessType, Options, Rdict

from local.kafka.broker import Broker
from model.records import INDEXES_KEY
from tests.support.backends import Backend
from tests.support.client import Response
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer, ends_of, history, table_of

PARTITIONS = 2
KEYS = 20_000
BACKLOG = 100_000  # more than a bulk load needs, in each partition
DESTS = [f"D{number}" for number in range(200)]
MOVING = [f"moving {number}" for number in range(100)]
SEED = 20130101
NDJSON = "application/x-ndjson"
FIELDS = '[views.v.fields]\ndest = "string?"\ndelay = "int?"\nprice = "double?"\n'
BEFORE = 'by-dest = ["dest"]\nby-route = ["dest", "delay"]\n'
AFTER = 'by-route = ["dest", "delay"]\nby-price = ["price", "dest"]\nby-delay = ["delay"]\n'

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

    def check(self, backend: Backend, conditions: int = 25) -> None:
        """Wait until all records are applied, and compare answers."""
        log = history(self.servers, self.topic, PARTITIONS)
        backend.wait_ready()
        backend.wait_positions("v", ends_of(log))
        table = table_of(log)
        for _ in range(conditions):
            condition, predicate = some_condition(self.chance)
            expected = {key: row for key, row in table.items() if predicate(row)}
            self._compare(backend, condition, expected)
        assert not self.wrong, self

    def _compare(self, backend: Backend, condition: str, expected: dict[str, Row]) -> None:
        lines = backend.get(where(condition), accept=NDJSON)
        items = [json.loads(line) for line in lines.body.splitlines()]
        page = backend.get(where(condition, more="&limit=20"))
        count = backend.get(where(condition, "count", "&exact=true"))
        rows = {item["key"]: item["value"] for item in items if "key" in item}
        first = [item["key"] for item in page.json()["items"]]
        in_order = sorted(expected, key=str.encode)
        self.answers += 3
        self.by_index += sum(
            "index" in answer.headers["Plan"] and "scan" not in answer.headers["Plan"]
            for answer in (lines, page, count)
        )
        if (rows, first) != (expected, in_order[:20]) or count.json()["count"] != len(expected):
            self.wrong.append(f"{condition}: {len(rows)} rows instead of {len(expected)}")


def plan_of(backend: Backend, condition: str) -> str:
    answer = backend.try_get(where(condition, more="&limit=1"))
    return "" if answer is None or answer.status != 200 else str(answer.headers["Plan"])


def position_of(backend: Backend) -> int:
    answer = backend.try_get("/instance")
    if answer is None:
        return 0
    return sum(p.get("position", 0) for p in answer.json()["partitions"])


def unfinished(backend: Backend) -> int:
    """The number of store partitions whose build is neither at its begin nor complete."""
    count = 0
    for partition in range(PARTITIONS):
        path = str(backend.data_dir / "v" / str(partition))
        store = Rdict(path, Options(raw_mode=True), access_type=AccessType.read_only())
        try:
            document = json.loads(store[INDEXES_KEY])
        finally:
            store.close()
        states = [index["ready"] for index in document["indexes"].values()]
        count += not all(states) and document["reached"] is not None
    return count


def all_moving(path: str, answer: Response) -> str:
    """The moving keys always meet the condition, so none of them may be missing."""
    if answer.status != 200:
        return ""
    keys = {item["key"] for item in answer.json()["items"]}
    return "" if keys == set(MOVING) else f"{len(keys)} of {len(MOVING)} keys"


@contextmanager
def writing(servers: str, topic: str, seed: int) -> Iterator[None]:
    """Some thousand records a second are written during the block."""
    writer = Writer(servers)
    stop = threading.Event()

    def write() -> None:
        records = some_records(1_000_000, seed)
        while not stop.wait(0.03):
            writer.send(topic, islice(records, 300))

    thread = threading.Thread(target=write, name="writing", daemon=True)
    thread.start()
    try:
        yield
        assert thread.is_alive()
    finally:
        stop.set()
        thread.join(60)


def test_an_index_gives_the_rows_of_the_topic_after_kills(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(PARTITIONS)
    chance = random.Random(SEED)
    checker = Checker(broker.bootstrap_servers, topic, chance)
    writer.send(topic, some_records(BACKLOG, 1))
    deployment = deploy(views(topic, BEFORE))
    backend = deployment.new()

    for _ in range(2):  # during the first load
        backend.launch()
        point = position_of(backend) + chance.randrange(5_000, BACKLOG // 3)
        backend.wait(lambda point=point: position_of(backend) >= point, f"position {point}")
        assert position_of(backend) < BACKLOG, "not during the load"
        checker.kill(backend)
    backend.launch()
    checker.check(backend)

    path = where("dest in ('HERE', 'THERE')", more="&limit=1000")
    with writing(broker.bootstrap_servers, topic, 2):
        for _ in range(2):
            backend.wait_ready()
            with ReadLoop([backend.port], [path], all_moving, threads=1) as reads:
                point = position_of(backend) + chance.randrange(3_000, 8_000)
                backend.wait(lambda point=point: position_of(backend) >= point, f"{point}")
                backend.wait(lambda: reads.check() or reads.seen("200") > 100, "reads")
            checker.kill(backend)
            backend.launch()
    checker.check(backend)

    for indexes, condition in ((AFTER, "price = 7"), (BEFORE, "dest = 'D7'")):
        assert backend.stop() == 0
        deployment.views_path.write_text(views(topic, indexes))
        with writing(broker.bootstrap_servers, topic, 3 + len(indexes)):
            for _ in range(2):
                backend.launch()
                backend.wait(lambda c=condition: plan_of(backend, c), "an answer")
                checker.kill(backend)
                checker.unfinished_builds += unfinished(backend)
            backend.launch()
            backend.wait(lambda c=condition: plan_of(backend, c).startswith("index"), "the index")
        checker.check(backend)

    assert checker.kills == 8
    assert checker.unfinished_builds > 0, checker
    assert checker.by_index > checker.answers // 2, checker


def test_copies_answer_with_all_index_keys(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    """A new instance copies stores, also while an index is built in them, and answers alone."""
    topic = make_topic(PARTITIONS)
    checker = Checker(broker.bootstrap_servers, topic, random.Random(SEED))
    writer.send(topic, some_records(BACKLOG // 2, 1))
    deployment = deploy(views(topic, BEFORE), standby_replicas="1", copy_threshold="1000")
    first, second = deployment.new().start(), deployment.new()
    for indexes, condition in ((BEFORE, "dest = 'D7'"), (AFTER, "price = 7")):
        with writing(broker.bootstrap_servers, topic, len(indexes)):
            if indexes == AFTER:
                assert first.stop() == 0
                deployment.views_path.write_text(views(topic, indexes))
                first.launch().wait_listening()
            settle([first, second.launch()])
            assert "bytes from b1" in second.log()
        for backend in (first, second):
            backend.wait(lambda b=backend, c=condition: plan_of(b, c).startswith("index"), "index")
        for backend in (first, second):
            checker.check(backend)
        checker.kill(first)
        settle([second])
        assert plan_of(second, condition).startswith("index")
        checker.check(second)
        second.kill()
        shutil.rmtree(second.data_dir)
        first.start()
    assert checker.by_index > checker.answers // 2, checker
