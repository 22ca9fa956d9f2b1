"""Every kind of query, to real instances and through a real nginx, while records are written and
instances are killed, stopped, started and join: every answer is that of the reference.

This is a seeded random run. Answers with a position are always compared with the reference at that
position. Answers about whole views are compared while no record is being written, unless they
report a lag. A 503 is correct only while instances join or leave.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from local.waiting import wait_until
from model.partitioner import partition_of
from model.views import ANY_PARTITION, View
from model.views_file import parse_views
from tests.support.backends import Backend
from tests.support.client import Client
from tests.support.deployment import views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.reference.questions import HISTORY, Answer, Question
from tests.support.reference.records import KEYS, record
from tests.support.reference.tables import Partition, Record, Table, fold
from tests.support.reference.whole_view_questions import Listed, Walk, any_question
from tests.support.topics import Writer, history

PARTITIONS = 3
SECONDS = float(os.environ.get("MACHINE_SECONDS", "12"))
SEED = int(os.environ.get("MACHINE_SEED", time.time_ns() % 10**6))
# no read has to wait longer when nothing else happens
PATIENCE = 15.0
VIEWS = {
    "plain": {"path": "/plain"},
    "numbers": {"key": "int64", "value": "float64", "partitioner": "crc32"},
    "recent": {"key": "bytes", "retention": "50ms"},
    "windows": {"store": "window", "window_size": "10ms", "retention": "50ms"},
    "series": {"store": "window", "key": "int32"},
    "sessions": {"store": "session"},
    "versions": {"store": "versioned", "retention": "50ms"},
    "scattered": {"partitioner": "none", "value": "bytes"},
    "everywhere": {"store": "global"},
}


class Log:
    """The records of a view's topic. There is no other producer, so offsets count from 0."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.records: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self.now = int(time.time() * 1000) - 3_600_000
        anywhere = view.partitioner == ANY_PARTITION
        self._partition_of = partition_of("murmur2" if anywhere else view.partitioner)
        self.walks: list[Walk] = []
        self.written_at = 0.0  # s, monotonic: when the broker had confirmed the last record

    def home(self, key: bytes) -> int:
        return self._partition_of(key, PARTITIONS)

    def more(self, dice: Random, writer: Writer, count: int) -> None:
        batch = []
        for _ in range(count):
            key = dice.choice(KEYS[self.view.key])
            # a key's records stay in one partition, even if it is not the partitioner's
            partition = self.home(key)
            offset = len(self.records[partition])
            made = record(dice, self.view, offset, self.now, [key])
            self.records[partition].append(made)
            batch.append((made.record_key(self.view), made.value, made.timestamp, partition))
        self.now += dice.choice((0, 1, 10, 40))
        writer.send_timed(self.view.topic, batch)
        self.written_at = time.monotonic()

    def partition(self, number: int, position: int) -> Partition:
        return fold(self.view, number, self.records[number], position)

    def table(self, key: bytes | None = None) -> Table:
        """The table at the end of the log. `key`: only the partitions in which it may be."""
        of = {n: self.partition(n, len(log)) for n, log in enumerate(self.records)}
        whole = Table(self.view, dict(of), self.view.partitioner == ANY_PARTITION)
        return whole if key is None or whole.anywhere else whole.only([self.home(key)])


def knows_all(answer: Answer, log: Log, asked_at: float) -> bool:
    """Whether the answer includes the last record that was written: `Lag` is relative to an end
    offset that was fetched `Staleness` ms ago."""
    staleness = answer.headers.get("staleness", "unknown")
    if answer.headers.get("lag") != "0" or staleness == "unknown":
        return False
    return asked_at - int(staleness) / 1000 > log.written_at


class Run:
    """The instances, nginx in front, and their requests."""

    def __init__(self, dice: Random, backends: list[Backend], nginx: Nginx, logs: list[Log]):
        self.dice = dice
        self.all = backends
        self.running = backends[:2]
        self.nginx = nginx
        self.logs = logs
        self.outcomes: Counter[str] = Counter()

    # requests

    def ask(self, port: int, question: Question) -> Answer | None:
        """The answer; None if there is none, or if it is incomplete."""
        try:
            with Client(port) as client:
                response = client.request(
                    question.method, question.target, question.body, question.headers
                )
        except OSError:
            return None
        named = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, named, response.body)

    def question(self, log: Log) -> tuple[Question, Walk | None]:
        dice, view, keys = self.dice, log.view, KEYS[log.view.key]
        if dice.random() < 0.25:
            if not log.walks or dice.random() < 0.3:
                if view.store in HISTORY and dice.random() < 0.4:
                    listed = Listed.of_key(dice, view, dice.choice(keys), log.now)
                else:
                    listed = Listed.whole(dice, view, keys, log.now)
                log.walks = [*log.walks[-2:], Walk(listed, exact=False)]
            walk = dice.choice(log.walks)
            return walk.next_page(dice), walk
        return any_question(dice, view, keys, log.now), None

    def put(self, log: Log, calm: bool, settled: bool = True) -> bool:
        """Sends one request to one instance. `settled`: no record is being written. `calm`: also no
        instance joins or leaves. Returns False if all answers are 503."""
        question, walk = self.question(log)
        by_position = question.key is not None and walk is None and question.stale != "allow"
        if not settled and (not by_position or log.view.partitioner == ANY_PARTITION):
            return True
        ports = [self.nginx.port, *(backend.port for backend in self.running)]
        port = self.dice.choice(ports)
        deadline = time.monotonic() + PATIENCE
        while True:
            asked_at = time.monotonic()
            answer = self.ask(port, question)
            lacking = answer is None or answer.status == 503
            if answer is not None and not lacking and question.keys:
                lacking = b'"status":503' in answer.body
            if not lacking or not calm or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        try:
            if answer is None or answer.status == 503:
                assert not calm, "unavailable without a reason"
                if answer is not None:
                    assert answer.headers["retry-after"], answer
                self.outcomes["503" if answer else "nobody"] += 1
                return False
            if by_position and "offset" in answer.headers:
                self.judge_as_of_offset(log, question, answer)
            elif calm or (question.stale != "allow" and knows_all(answer, log, asked_at)):
                question.judge(log.table(question.key), answer)
            else:
                # a restarted instance resumes at its position, and reports its lag
                self.outcomes["behind"] += 1
                return False
            if walk is not None and walk.ended:
                log.walks.remove(walk)
        except Exception as e:
            e.add_note(f"{log.view.name}: port {port} was asked {question}, answered {answer}")
            raise
        self.outcomes[question.kind] += 1
        return True

    def judge_as_of_offset(self, log: Log, question: Question, answer: Answer) -> None:
        """The answer may include records that were applied meanwhile, but it must include all
        records before Offset."""
        assert question.key is not None
        number, position = int(answer.headers["partition"]), int(answer.headers["offset"])
        assert number == log.home(question.key)
        end = len(log.records[number])
        assert position <= end
        for more in range(position, end + 1):
            try:
                question.judge(Table(log.view, {number: log.partition(number, more)}), answer)
                self.outcomes["newer than stated"] += more > position
                return
            except AssertionError:
                if more == end:
                    stated = Table(log.view, {number: log.partition(number, position)})
                    question.judge(stated, answer)

    # events

    def is_applied(self) -> bool:
        # while a partition moves, two instances may have it, and either may answer
        positions = defaultdict[tuple[str, int], set[int]](set)
        for backend in self.running:
            for held in backend.instance()["partitions"]:
                if held["state"] == "answerable":
                    positions[held["view"], held["partition"]].add(held["position"])
        return all(
            positions[log.view.name, number] == {len(records)}
            for log in self.logs
            for number, records in enumerate(log.records)
        )

    def is_settled(self) -> bool:
        epochs = set()
        for backend in self.running:
            backend.check()
            answer = backend.try_get("/health/ready")
            if answer is None or answer.status != 200:
                return False
            document = backend.processors()
            if len(document["processors"]) != len(self.running):
                return False
            epochs.add(document["epoch"])
        return len(epochs) == 1

    def event(self) -> str:
        """An instance joins or leaves. A stopping instance gets the time that it needs."""
        down = [backend for backend in self.all if backend not in self.running]
        kinds = ["nothing"]
        if len(self.running) > 1:
            kinds += ["kill", "stop", "kill and start"]
        if down:
            kinds += ["start"] * 2
        kind = self.dice.choice(kinds)
        if kind == "start":
            self.running.append(self.dice.choice(down).launch())
        elif kind != "nothing":
            victim = self.dice.choice(self.running)
            if kind == "stop":
                self.running.remove(victim)
                victim.terminate()
            else:
                victim.kill()
                if kind == "kill":
                    self.running.remove(victim)
                else:
                    victim.launch()
        return kind

    def round(self, writer: Writer) -> None:
        for log in self.logs:
            log.more(self.dice, writer, self.dice.randrange(1, 12))
            for _ in range(6):
                self.put(log, calm=True, settled=False)
        wait_until(self.is_applied, 30, "all records to be applied", 0.02)
        for log in self.logs:
            for _ in range(12):
                self.put(log, calm=True)
        kind = self.event()
        self.outcomes[f"event: {kind}"] += 1
        deadline = time.monotonic() + 60
        while not self.is_settled():
            assert time.monotonic() < deadline, f"the instances do not settle after {kind}"
            self.put(self.dice.choice(self.logs), calm=False)
        for backend in self.all:
            if backend not in self.running and backend.is_running:
                backend.wait_end()


@pytest.fixture
def run(deploy: Deploy, make_topic: MakeTopic, writer: Writer, tmp_path: Path) -> Iterator[Run]:
    print(f"MACHINE_SEED={SEED}")
    dice = Random(SEED)
    declared = views_toml(
        **{name: {"topic": make_topic(PARTITIONS), **fields} for name, fields in VIEWS.items()}
    )
    views = parse_views(declared, "views.toml", lambda name: "").views
    deployment = deploy(declared)
    backends = [deployment.new() for _ in range(3)]
    nginx = deployment.proxy(wait_for_topology=False)
    made = Run(dice, backends, nginx, [Log(view) for view in views])
    for backend in made.running:
        backend.launch()
    wait_until(lambda: all(b.try_get("/health/live") for b in made.running), 40, "an answer")
    wait_until(made.is_settled, 40, "the instances to settle")
    wait_until(lambda: nginx.health()["status"] == "ok", 10, "the proxy to have a topology")
    yield made
    for backend in backends:
        assert "Traceback" not in backend.log(whole=True)


def test_every_answer_matches_the_reference(run: Run, writer: Writer, broker: object) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        run.round(writer)
    print(dict(run.outcomes))
    for log in run.logs:
        # the counted offsets are those of the broker
        stored = history(broker.bootstrap_servers, log.view.topic, PARTITIONS)  # type: ignore[attr-defined]
        assert [[r.offset for r in of] for of in log.records] == [
            [offset for offset, _, _, _ in of.records] for of in stored
        ]
    assert sum(run.outcomes.values()) > 200, run.outcomes
