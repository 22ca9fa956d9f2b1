"""Every kind of question, to several instances, while records come in, partitions move and
instances stop and start: every answer is the reference's, or a 503 that is due."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from model.kinds.registry import KINDS
from model.topology import NO_MEMBER
from model.views import View
from tests.support.examples import examples
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import view
from tests.support.reference.questions import HISTORY, Answer, Question
from tests.support.reference.records import KEYS, record
from tests.support.reference.tables import Table
from tests.support.reference.whole_view_questions import Listed, Walk, any_question

INSTANCES = PARTITIONS = 3
# of each kind of store, with 40 steps each
EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES", "3"))
ids = st.sampled_from([f"b{n}" for n in range(1, INSTANCES + 1)])
dices = st.randoms(use_true_random=False)

STORES: dict[str, list[dict[str, object]]] = {
    "key-value": [{}],
    "global": [{}],
    "window": [
        {"window_size": 10},
        {"window_unit": "month", "window_zone": "Europe/Berlin"},
        {"window_key": "topic"},
    ],
    "session": [{}],
    "versioned": [{}],
}
VALUES = {
    "key-value": ["json", "json", "float64", "none", "bytes"],
    "global": ["json", "json", "none"],
    "versioned": ["json", "int64"],
}


class Machine(RuleBasedStateMachine):
    """One view of a kind of store; `partitioners` are those that it may have, and `strays` is
    whether records may lie where its partitioner would not put them."""

    store = "key-value"
    # with crc32, the empty key may be in any partition: scans/test_empty_keys.py
    partitioners: tuple[str, ...] = ("murmur2", "fnv1a")
    strays = False

    @initialize(dice=dices)
    def begin(self, dice: Random) -> None:
        kind = dice.choice(STORES[self.store])
        self.view: View = view(
            store=self.store,
            key=dice.choice([*KEYS, "string"]),
            value=dice.choice(VALUES.get(self.store, ["json"])),
            partitioner=dice.choice(self.partitioners),
            retention=dice.choice((None, 50)),
            **kind,
        )
        # few, so that there are many records of each
        self.keys = dice.sample(KEYS[self.view.key], 5)
        self.folder = Path(tempfile.mkdtemp())
        self.cluster = Cluster(self.folder, self.view, INSTANCES, PARTITIONS)
        self.cluster.settle()
        self.walks: list[Walk] = []
        self.now = 100
        self.is_wrong = self.had_standbys = False

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            try:
                if not self.is_wrong:
                    self.end()
            finally:
                self.cluster.close()
                shutil.rmtree(self.folder)

    def end(self) -> None:
        """Everybody is there and up to date: each answers everything, and every walk ends."""
        running = [f"b{n}" for n in range(1, INSTANCES + 1)]
        for id_ in running:
            if id_ not in self.cluster.nodes:
                self.cluster.start(id_)
        self.cluster.place(list(range(PARTITIONS)))
        self.cluster.settle()
        dice = Random(self.now)
        self.write(dice, 10)
        self.cluster.settle()
        table = self.cluster.table("b1")
        assert None not in table.partitions.values()
        dead = {
            (n, r.offset) for n, log in enumerate(self.cluster.logs) for r in log if not r.sound
        }
        # what a standby read before the active did is lost, if it restarts before a takeover
        missing = dead - self.cluster.letters.sent
        assert self.cluster.letters.sent <= dead
        assert not missing or self.had_standbys
        for id_ in running:
            for _ in range(15):
                self._put(id_, any_question(dice, self.view, self.keys, self.now))
        for walk in self.walks:
            while not walk.ended:
                self._put(dice.choice(running), walk.next_page(dice))

    # what happens

    @rule(dice=dices, count=st.integers(5, 15))
    def write_and_apply(self, dice: Random, count: int) -> None:
        self.write(dice, count)
        self.cluster.settle()

    @rule(dice=dices, count=st.integers(1, 8))
    def write(self, dice: Random, count: int) -> None:
        for _ in range(count):
            made = record(dice, self.view, 0, self.now, self.keys)
            partition = self.cluster.home(made.key)
            if self.strays:
                partition = dice.choice((partition, dice.randrange(PARTITIONS)))
            offset = len(self.cluster.logs[partition])
            time = made.timestamp
            while any(
                (r.key, r.timestamp, r.offset) == (made.key, time, offset)
                for n, log in enumerate(self.cluster.logs)
                for r in log
                if n != partition
            ):
                time += 1  # of two that are as old as one another, neither is the newer one
            self.cluster.write(replace(made, offset=offset, timestamp=time), partition)

    @rule(of=ids, most=st.sampled_from([1, 2, 5, 1000]))
    def apply(self, of: str, most: int) -> None:
        if of in self.cluster.nodes:
            self.cluster.turn(of, most)

    @rule()
    def settle(self) -> None:
        self.cluster.settle()

    @rule(by=st.sampled_from([1, 5, 30, 70]))
    def time_passes(self, by: int) -> None:
        self.now += by

    @rule(of=ids)
    def restart(self, of: str) -> None:
        if of in self.cluster.nodes:
            self.cluster.stop(of)
        self.cluster.start(of)

    @precondition(lambda self: len(self.cluster.nodes) == INSTANCES)
    @rule(of=ids)
    def stop(self, of: str) -> None:
        self.cluster.stop(of)

    @rule(dice=dices)
    def rebalance(self, dice: Random) -> None:
        running = [int(id_[1:]) - 1 for id_ in self.cluster.nodes]
        active = [dice.choice(running) for _ in range(PARTITIONS)]
        if dice.random() < 0.1:
            active[dice.randrange(PARTITIONS)] = NO_MEMBER
        # of a global view all are, most of the time: one may be warming up
        least = dice.choice((0, 2)) if self.store == "global" else 0
        standbys = [
            [] if of == NO_MEMBER else dice.sample(rest, min(dice.randint(least, 2), len(rest)))
            for of in active
            for rest in [[n for n in running if n != of]]
        ]
        self.had_standbys = self.had_standbys or any(standbys)
        self.cluster.place(active, standbys)
        what_follows = dice.choice(("nothing", "a part", "all"))
        if what_follows == "all":
            self.cluster.settle()
        elif what_follows == "a part":
            # opened, and not at the end yet: this is when nobody may answer
            for id_ in list(self.cluster.nodes):
                self.cluster.turn(id_, 2)
            self.ask(dice, dice.choice(list(self.cluster.nodes)), 10)

    # what is asked

    @rule(dice=dices, of=ids, count=st.integers(5, 15))
    def ask(self, dice: Random, of: str, count: int) -> None:
        for _ in range(count):
            self._put(of, any_question(dice, self.view, self.keys, self.now))

    @rule(dice=dices)
    def begin_a_walk(self, dice: Random) -> None:
        if self.store in HISTORY and dice.random() < 0.4:
            listed = Listed.of_key(dice, self.view, dice.choice(self.keys), self.now)
        else:
            listed = Listed.whole(dice, self.view, self.keys, self.now)
        self.walks = [*self.walks[-2:], Walk(listed)]

    @precondition(lambda self: self.walks)
    @rule(dice=dices, of=ids)
    def next_page(self, dice: Random, of: str) -> None:
        for walk in list(self.walks):
            self._put(of, walk.next_page(dice))
            if walk.ended:
                self.walks.remove(walk)

    def _put(self, of: str, question: Question) -> None:
        cluster = self.cluster
        if of not in cluster.nodes:
            return
        whole = question.key is None and not question.keys
        table = cluster.table(of, question.stale, whole)
        answer = cluster.ask(of, question.method, question.target, question.body, question.headers)
        try:
            self._judge(of, question, table, answer)
        except Exception as e:
            self.is_wrong = True
            e.add_note(f"{of} was asked {question} and answered {answer}")
            raise

    def _judge(self, of: str, question: Question, table: Table, answer: Answer) -> None:
        cluster = self.cluster
        needed = set(table.partitions)
        if question.key is not None and not table.anywhere:
            needed = {cluster.home(question.key)}
        lacking = {partition for partition in needed if table.partitions[partition] is None}
        if question.key is not None:
            table = table.only(needed)
        if question.keys:
            question.judge(table, answer)
            for key, item in zip(question.keys, answer.json()["items"], strict=True):
                its = needed if table.anywhere else {cluster.home(key)}
                assert (item["status"] == 503) == bool(its & lacking), item
                if item["status"] == 503:
                    assert item["code"] in self._codes(of, its & lacking, question)
        elif lacking:
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            if question.method != "HEAD":
                assert answer.json()["code"] in self._codes(of, lacking, question)
        else:
            question.judge(table, answer)
            self._check_headers(of, question, answer)

    def _codes(self, of: str, lacking: set[int], question: Question) -> set[str]:
        return {code for p in lacking for code in self.cluster.why_not(of, p, question.stale)}

    def _check_headers(self, of: str, question: Question, answer: Answer) -> None:
        """As of which position the answer is, and whose it is."""
        if "partition" not in answer.headers:
            if answer.status not in (400, 410):  # which are errors
                said = set(answer.headers["served-by"].split(", "))
                assert said == self.cluster.answerers(of, question.stale)
            return
        assert question.key is not None
        partition = int(answer.headers["partition"])
        assert partition == self.cluster.home(question.key)
        store_partition = self.cluster.holder(of, partition, stale=question.stale)
        assert store_partition is not None
        assert int(answer.headers["offset"]) == store_partition.progress.position
        assert answer.headers["served-by"].endswith(f"; {store_partition.role}")


class Strays(Machine):
    """A partitioner that the producers do not keep to, or none."""

    partitioners: tuple[str, ...] = ("none",)
    strays = True


def machine(of: type[Machine], store: str) -> type[Machine]:
    return type(f"{of.__name__}_{store}", (of,), {"store": store})


quick = settings(
    deadline=None,
    max_examples=examples(EXAMPLES),
    stateful_step_count=40,
    # a step takes milliseconds: making a failure smaller would take minutes
    phases=[Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("store", KINDS)
@pytest.mark.slow
def test_every_answer_is_the_references(store: str) -> None:
    run_state_machine_as_test(machine(Machine, store), settings=quick)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("store", KINDS)
@pytest.mark.slow
def test_every_answer_where_records_stray(store: str) -> None:
    run_state_machine_as_test(machine(Strays, store), settings=quick)  # type: ignore[no-untyped-call]
