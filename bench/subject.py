"""What is measured: ours or a reference, in rounds.

A reference may answer wrongly, or fail: that is recorded in its rows, and the run goes on. An error
of our software ends its group of rows; the rows measured so far are kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import urllib3

from bench import load
from bench.load import Measurement, Query, Workload
from bench.plan import Plan
from bench.records import document, key
from bench.report import Comparison, Row, Target
from bench.stack import Server
from local.errors import LocalError, tail
from local.progress import bar
from local.settings import REPOSITORY
from local.stack.services import HUGE_PAGES

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A row of the same group with which a quantity is compared. `row`: its name. `target`: one for
    all numbers of connections, or one by number."""

    quantity: str
    row: str
    target: Target | Mapping[int, Target] | None = None


class Subject:
    """A row of the table, or a row for each number of connections.

    A reference that has failed is not measured again, so it has fewer rounds than ours.
    """

    def __init__(
        self,
        name: str,
        measure_round: Callable[[int | None], Measurement],
        *,
        baselines: Sequence[Baseline] = (),
        reference: bool = False,
        connections: Sequence[int | None] = (None,),
    ) -> None:
        """`measure_round` measures one round, with one of the numbers `connections`; None: a row
        without connections."""
        self.name = name
        self.reference = reference
        self.connections = connections
        self.failure = ""
        self._measure_round = measure_round
        self._baselines = baselines
        self._rounds: dict[int | None, list[Measurement]] = {number: [] for number in connections}
        self._wrong_at_start: list[str] = []

    def start(self) -> None:
        """Starts what is measured; called once, before the first round."""

    def measure(self, connections: int | None = None) -> None:
        """Measures one round."""
        measurement = self.attempt(lambda: self._measure_round(connections))
        if measurement is not None:
            self._rounds[connections].append(measurement)

    def attempt(self, action: Callable[[], T]) -> T | None:
        """Run `action`, and return its result; None if this is a reference that fails, or has
        failed before. Raises the errors of ours."""
        if self.failure:
            return None
        try:
            return action()
        except Exception as error:
            text = str(error) if isinstance(error, LocalError) else repr(error)
            if self.reference:
                self.failure = text
                return None
            if isinstance(error, LocalError):
                raise LocalError(f"{self.name}: {text}") from error
            raise

    def note(self, *wrong: str) -> None:
        """Records wrong answers in each of its rows."""
        self._wrong_at_start += wrong

    def values(self, quantity: str, connections: int | None) -> list[float]:
        """A quantity in each round that has it. A subject that has no such number of connections
        has the same values for all."""
        rounds = self._rounds.get(connections, self._rounds.get(None, []))
        return [round_.values[quantity] for round_ in rounds if quantity in round_.values]

    def row(self, connections: int | None, group: Mapping[str, Subject]) -> Row:
        """A row with the medians of all quantities, compared with those of its `group`."""
        rounds = self._rounds[connections]
        names = dict.fromkeys(name for measurement in rounds for name in measurement.values)
        return Row(
            self.name,
            connections,
            {name: median(self.values(name, connections)) for name in names},
            [self._compared(base, connections, group) for base in self._baselines if rounds],
            rounds=len(rounds),
            reference=self.reference,
            wrong=[
                *self._wrong_at_start,
                *(wrong for measurement in rounds for wrong in measurement.wrong),
            ],
            failure=self.failure,
        )

    def _compared(
        self, baseline: Baseline, connections: int | None, group: Mapping[str, Subject]
    ) -> Comparison:
        ours, other = self.values(baseline.quantity, connections), group.get(baseline.row)
        values = other.values(baseline.quantity, connections) if other else []  # of a later phase
        target = baseline.target
        if isinstance(target, Mapping):
            target = target.get(connections or 0)
        return Comparison.from_rounds(baseline.quantity, ours, baseline.row, values, target)


class LoadTest(Subject):
    """Servers under load. The CPU time and the memory of all of them count."""

    def __init__(
        self,
        name: str,
        launch: Callable[[], Sequence[Server]],
        workload: Workload,
        plan: Plan,
        *,
        baselines: Sequence[Baseline] = (),
        connections: Sequence[int] = (),
        reference: bool = False,
        is_proxy: bool = False,
        token: str = "",
        warm_up: int = 0,
    ) -> None:
        """`launch` returns the servers; the first one gets the requests. `connections`: by default
        the numbers of the plan. `is_proxy`: whether the first server is our nginx. `token`: for a
        first read, and the metrics. `warm_up`: seconds of load before the first round; 0: as long
        as each load."""
        connections = connections or plan.connections
        super().__init__(
            name, self._loaded, baselines=baselines, reference=reference, connections=connections
        )
        self._launch = launch
        self._workload = workload
        self._seconds = plan.seconds
        self._is_proxy = is_proxy
        self._token = token
        self._warm_up = warm_up or plan.seconds
        self.servers: Sequence[Server] = ()
        """Empty until they are started, or if a reference has failed to start."""

    @property
    def server(self) -> Server:
        """The first server. Raises LocalError if it is not started, or the reference has failed."""
        if not self.servers or self.failure:
            raise LocalError(self.failure or f"{self.name} is not started")
        return self.servers[0]

    def start(self) -> None:
        """Starts the servers, reads one record, and warms them up: caches are filled, and
        interpreters specialize."""
        self.servers = self.attempt(self._launch) or ()
        self.attempt(self._read)
        self.attempt(lambda: self.note(*self._load(16, self._warm_up).wrong))

    def _read(self) -> None:
        """Notes a wrong answer to a first request."""
        if (query := self._workload.query) is not None:
            self._ask(query)
            return
        table, name = self._workload.table, key(0).decode()
        method, path, body, expected = "GET", f"{table.path}/{name}", None, document(table, 0)
        if self._workload.batch:
            method, path, body = "POST", f"/views/{table.view}/batch", {"keys": [name]}
            expected = b'{"items":[%b]}' % expected.replace(b",", b',"status":200,', 1)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        url = f"{self.server.url}{path}"
        answer = urllib3.request(method, url, json=body, headers=headers, timeout=5)
        if (answer.status, answer.data) != (200, expected):
            self.note(f"{path}: {answer.status} {answer.data[:100]!r}, not {expected[:100]!r}")

    def _ask(self, query: Query) -> None:
        path = query.path % 0
        answer = urllib3.request("GET", f"{self.server.url}{path}", timeout=5)
        got, plan = answer.data[: len(query.first)], answer.headers.get("Plan")
        if (answer.status, got, plan) != (200, query.first, query.plan):
            self.note(
                f"{path}: {answer.status} by {plan}, {got[:100]!r}, not 200 by {query.plan}, "
                f"{query.first[:100]!r}"
            )

    def _load(self, connections: int, seconds: int) -> Measurement:
        return load.measure(self.server, self.servers, self._workload, connections, seconds)

    def _loaded(self, connections: int | None) -> Measurement:
        assert connections is not None
        if not self._is_proxy:
            return self._load(connections, self._seconds)
        before = load.batches(self.server, self._token)
        measurement = self._load(connections, self._seconds)
        after = load.batches(self.server, self._token)
        batch = load.reads_per_request(measurement.values["requests"], before, after)
        return Measurement({**measurement.values, "batch": batch}, measurement.wrong)


def run_reference(module: str, *arguments: object) -> Measurement:
    """Runs a module of `bench.references`, which prints the quantities as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", f"bench.references.{module}", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=150, cwd=REPOSITORY,
        env={**os.environ, **HUGE_PAGES},
    )  # fmt: skip
    if done.returncode:
        raise LocalError(f"bench.references.{module} failed:\n{tail(done.stdout + done.stderr)}")
    return Measurement(json.loads(done.stdout))


def measured(name: str, phases: Iterator[Sequence[Subject]], plan: Plan) -> Iterator[list[Row]]:
    """Measures the subjects of each phase alternately, with each number of connections. Yields all
    rows of the group so far after each measurement."""
    group: dict[str, Subject] = {}
    for subjects in phases:
        group |= {subject.name: subject for subject in subjects}
        for subject in subjects:
            subject.start()
        points = sorted(
            {number for subject in subjects for number in subject.connections},
            key=lambda number: number or 0,
        )
        turns = [(point, s) for point in points for s in subjects if point in s.connections]
        with bar(f"measuring {name}", plan.rounds * len(turns)) as update:
            for done, (point, subject) in enumerate(turns * plan.rounds, 1):
                subject.measure(point)
                update(done)
                rows = [s.row(number, group) for s in group.values() for number in s.connections]
                yield sorted(rows, key=lambda row: row.connections or 0)
