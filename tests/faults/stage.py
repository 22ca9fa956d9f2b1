"""One scenario, run: a cluster with its load and writer, a fault, and how it was answered."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from local.errors import LocalError
from local.kafka.broker import Broker
from tests.faults.checking import Era, Findings, check
from tests.faults.cluster import VIEW, Cluster, Setup
from tests.faults.faults import NotHere
from tests.faults.load import Load
from tests.faults.truth import era, unlike
from tests.faults.writing import Writing
from tests.support.backends import Backend
from tests.support.tcp_faults import TcpFaults

log = logging.getLogger(__name__)

_QUIET = 1.0  # s of load before the fault, and after all is whole again
_WHOLE = 60.0  # s


@dataclass(frozen=True)
class Target:
    """What was promised; None: nothing. `failed` is a share of all requests."""

    failed: float | None = None
    silence_ms: float | None = None


@dataclass(frozen=True)
class Scenario:
    """`run(stage)` breaks something, waits, and mends it."""

    name: str
    what: str
    run: Callable[[Stage], None]
    setup: Setup = field(default_factory=Setup)
    target: Target = field(default_factory=Target)
    heals: bool = True  # whether every partition is answered in the end


@dataclass
class Result:
    """A line of the table, and of faults.json. `redundancy_s` is None where none was lost."""

    scenario: str
    requests: int = 0
    wrong: int = 0
    failed: int = 0
    longest_silence_ms: float = 0.0
    redundancy_s: float | None = None
    # of which: what clients were told; how long this program itself sent nothing
    failures: dict[str, int] = field(default_factory=dict)
    stalled_ms: float = 0.0
    ahead: int = 0
    examples: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    error: str = ""
    skipped: str = ""

    @property
    def ok(self) -> bool:
        return not (self.wrong or self.missed or self.error)

    def document(self) -> dict[str, Any]:
        return asdict(self)


class Stage:
    """What a scenario has in its hands."""

    def __init__(self, cluster: Cluster, load: Load, writing: Writing, seconds: float) -> None:
        self.cluster = cluster
        self.load = load
        self.writing = writing
        self.seconds = seconds  # how long a fault lasts that does not end by itself
        self.redundancy_s: float | None = None
        self.eras: list[Callable[[], Era]] = []  # beside the last one; asked in the end
        self.since = float("-inf")  # of the last one
        self.kept = frozenset(cluster.keys.kept)  # what is never deleted, in the last one
        self._fault_at = time.monotonic()
        self._never = threading.Event()

    @property
    def backends(self) -> list[Backend]:
        return self.cluster.all

    def fault(self) -> None:
        """From this moment on redundancy is lost."""
        self._fault_at = time.monotonic()

    def regained(self, living: Iterable[Backend] | None = None) -> None:
        """Waits for it; the longest time from a `fault` counts."""
        self.cluster.wait_whole(_WHOLE, living)
        self.redundancy_s = max(self.redundancy_s or 0.0, time.monotonic() - self._fault_at)

    def hold(self, seconds: float | None = None) -> None:
        """Lets the fault, or the peace, last."""
        self._never.wait(self.seconds if seconds is None else seconds)

    def wait_answers(self, timeout: float = _WHOLE) -> None:
        """Until every partition has answered something that was asked from now on."""
        moment, deadline = time.monotonic(), time.monotonic() + timeout
        while self.load.good_since(moment) != set(self.cluster.keys.of):
            if time.monotonic() > deadline:
                answered = sorted(self.load.good_since(moment))
                raise LocalError(f"in {timeout:g} s only partitions {answered} were answered")
            self._never.wait(0.1)

    def era(self) -> Era:
        """The topic as it is, by which answers are judged."""
        return era(self.cluster, self.writing, self.cluster.partitions, self.kept, self.since)


def play(
    scenario: Scenario,
    broker: Broker,
    folder: Path,
    *,
    seconds: float = 10.0,
    rate: float = 300.0,
    detour: TcpFaults | None = None,
    **settings: str,
) -> Result:
    """Runs it; `settings` of the backends in place of what tests have. What does not come back in
    time is `error`, what cannot be done here `skipped`."""
    try:
        with Cluster(broker, folder, scenario.setup, detour, **settings) as cluster:
            return perform(scenario, cluster, seconds, rate)
    except NotHere as reason:
        return Result(scenario.name, skipped=str(reason))
    except Exception as error:  # the others shall be played all the same
        log.exception("scenario %s", scenario.name)
        return Result(scenario.name, error=repr(error))


def perform(scenario: Scenario, cluster: Cluster, seconds: float, rate: float) -> Result:
    """The same on a cluster that is there already, and whole."""
    result = Result(scenario.name)
    load = Load(cluster.nginx.port, VIEW, cluster.keys.of, rate)
    writing = Writing(
        cluster.broker.bootstrap_servers,
        cluster.topic,
        cluster.keys.kept,
        cluster.keys.volatile,
        transactional=cluster.setup.transactional,
    )
    stage = Stage(cluster, load, writing, seconds)
    with _told(result), writing:
        with load:
            stage.hold(_QUIET)
            with _told(result):
                scenario.run(stage)
                if scenario.heals:
                    stage.wait_answers()
            stage.hold(_QUIET)
        writing.stop()
        if said := unlike(cluster):
            result.error = result.error or f"it never became as the topic is: {said}"
    eras = [*(former() for former in stage.eras), stage.era()]
    found = check(load.reads, eras, load.began, load.ended, load.stalls)
    result.redundancy_s = None if stage.redundancy_s is None else round(stage.redundancy_s, 2)
    result.stalled_ms = round(1000 * max((end - begin for begin, end in load.stalls), default=0.0))
    _fill(result, found)
    result.missed = _missed(result, scenario.target)
    return result


@contextmanager
def _told(result: Result) -> Any:
    """What was waited for in vain does not keep the answers from being judged."""
    try:
        yield
    except (LocalError, AssertionError) as error:
        result.error = result.error or str(error)


def _fill(result: Result, found: Findings) -> None:
    result.requests = found.requests
    result.wrong = found.wrong
    result.failed = found.failed
    result.longest_silence_ms = round(found.silence * 1000)
    result.failures = dict(found.failures.most_common())
    result.ahead = found.ahead
    result.examples = found.examples


def _missed(result: Result, target: Target) -> list[str]:
    missed = []
    if target.failed is not None and result.failed > target.failed * result.requests:
        missed.append(f"{result.failed} failed, and {target.failed:.1%} are allowed")
    if target.silence_ms is not None and result.longest_silence_ms > target.silence_ms:
        missed.append(f"{result.longest_silence_ms:g} ms, and {target.silence_ms:g} are allowed")
    return missed
