"""Which process is killed, and when: chosen at random, or for a view and a phase."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.pipelines.job import Job
from tests.pipelines.phases import Phase
from tests.pipelines.processes import kill


class Kind(StrEnum):
    """`all`: all processes at once, as when a machine fails. `executor` exists on a cluster."""

    DRIVER = "driver"
    JVM = "jvm"
    EXECUTOR = "executor"
    WORKER = "worker"
    DAEMON = "daemon"
    ALL = "all"


_OF_PYTHON = (Kind.WORKER, Kind.DAEMON)

AIMS: Sequence[Phase | None] = (
    Phase.OFFSET_LOG,
    Phase.WRITING,
    Phase.STATE_COMMIT,
    Phase.COMMIT_LOG,
    None,  # at a random time
    None,
)


@dataclass(frozen=True)
class Plan:
    """Kill a process as soon as `view` is in phase `aim`; None: at a random `moment`, from 0 to 1.
    `settle`: first let every view finish a micro-batch."""

    kind: Kind
    view: str
    aim: Phase | None
    moment: float
    settle: bool


@dataclass
class Done:
    """A kill, and the phase in which each view was."""

    kind: Kind
    phases: dict[str, Phase]
    counts: dict[str, bool] = field(default_factory=dict)


class Planner:
    """Plans kills so that each view gets `wanted` of them, each within a micro-batch. The same
    seed gives the same choices for the same history."""

    def __init__(
        self,
        seed: int,
        views: Sequence[str],
        wanted: int,
        kinds: Sequence[Kind],
        uses_python: Callable[[str], bool],
        stateless: Callable[[str], bool],
    ) -> None:
        self._random = random.Random(seed)
        self._views = views
        self._wanted = wanted
        self._kinds = kinds
        self._uses_python = uses_python
        self._stateless = stateless
        self.done: list[Done] = []

    def kills(self, view: str) -> int:
        """The kills that count for a view: in a micro-batch, of a process that it uses."""
        return sum(done.counts[view] for done in self.done)

    def kinds(self, view: str) -> Counter[str]:
        return Counter(str(done.kind) for done in self.done if done.counts[view])

    def phases(self, view: str) -> Counter[str]:
        return Counter(str(done.phases[view]) for done in self.done if done.counts[view])

    @property
    def is_done(self) -> bool:
        return all(self.kills(view) >= self._wanted for view in self._views)

    def next(self) -> Plan:
        """For one of the views that need more kills. The kinds take turns, in random order."""
        view = self._random.choice([v for v in self._views if self.kills(v) < self._wanted])
        used = Counter(done.kind for done in self.done)
        kinds = [kind for kind in self._kinds if kind not in _OF_PYTHON or self._uses_python(view)]
        least = min(used[kind] for kind in kinds)
        kind = self._random.choice([kind for kind in kinds if used[kind] == least])
        aims = [aim for aim in AIMS if aim is not Phase.STATE_COMMIT or not self._stateless(view)]
        return Plan(
            kind,
            view,
            self._random.choice(aims),
            self._random.random(),
            settle=self._random.random() < 0.7,
        )

    def record(self, kind: Kind, phases: Mapping[str, Phase]) -> Done:
        python = kind in _OF_PYTHON
        counts = {
            view: phase.in_batch and (not python or self._uses_python(view))
            for view, phase in phases.items()
        }
        self.done.append(Done(kind, dict(phases), counts))
        return self.done[-1]


def perform(kind: Kind, job: Job, chosen: random.Random) -> bool:
    """Kills a process of this kind; whether there was one."""
    running = job.processes()
    if kind is Kind.DRIVER:
        job.kill_driver()
    elif kind is Kind.ALL:
        job.kill_all()
    else:
        candidates = {
            Kind.JVM: running.jvms,
            Kind.EXECUTOR: running.executors,
            Kind.WORKER: running.workers,
            Kind.DAEMON: running.daemons,
        }[kind]
        if not candidates:
            return False
        if kind is Kind.JVM:
            job.expect_end()
        kill(chosen.choice(candidates))
    return True
