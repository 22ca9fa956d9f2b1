"""Runs one scenario: a cluster with reads and writes, a fault, and the check of all answers."""

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
from tests.faults.checking import Findings, TopicHistory, check
from tests.faults.cluster import VIEW, Cluster, Setup
from tests.faults.faults import Unsupported
from tests.faults.load import ReadLoad
from tests.faults.truth import first_difference, topic_history
from tests.faults.writing import UpdateLoad
from tests.support.backends import Backend
from tests.support.tcp_faults import TcpFaults

log = logging.getLogger(__name__)

_QUIET = 1.0  # s of load before the fault, and after the recovery
_RECOVERY_TIMEOUT = 60.0  # s


@dataclass(frozen=True)
class Target:
    """Bounds of a scenario; None: no bound. `failed` is a share of all requests."""

    failed: float | None = None
    silence_ms: float | None = None


@dataclass(frozen=True)
class Scenario:
    """`run(context)` injects a fault, waits, and repairs it."""

    name: str
    what: str
    run: Callable[[ScenarioContext], None]
    setup: Setup = field(default_factory=Setup)
    target: Target = field(default_factory=Target)
    heals: bool = True  # whether every partition answers at the end


@dataclass
class Result:
    """A line of the table, and of faults.json. `redundancy_s` is None if none was lost."""

    scenario: str
    requests: int = 0
    wrong: int = 0
    failed: int = 0
    longest_silence_ms: float = 0.0
    redundancy_s: float | None = None
    failures: dict[str, int] = field(default_factory=dict)  # status and code -> number
    stalled_ms: float = 0.0  # longest time in which this program itself sent nothing
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


class ScenarioContext:
    """The cluster, the load and helpers for a scenario."""

    def __init__(
        self, cluster: Cluster, load: ReadLoad, writing: UpdateLoad, seconds: float
    ) -> None:
        self.cluster = cluster
        self.load = load
        self.writing = writing
        self.seconds = seconds  # duration of a fault that does not end by itself
        self.redundancy_s: float | None = None
        # of earlier topics; called at the end
        self.histories: list[Callable[[], TopicHistory]] = []
        # of the current topic: when it was created, and keys that are never deleted
        self.since = float("-inf")
        self.kept = frozenset(cluster.keys.kept)
        self._fault_at = time.monotonic()
        self._never = threading.Event()

    @property
    def backends(self) -> list[Backend]:
        return self.cluster.all

    def mark_fault(self) -> None:
        """Call when redundancy is lost: starts the clock of `wait_redundant`."""
        self._fault_at = time.monotonic()

    def wait_redundant(self, living: Iterable[Backend] | None = None) -> None:
        """Waits for redundancy; the longest time since a `mark_fault` is the result."""
        self.cluster.wait_whole(_RECOVERY_TIMEOUT, living)
        self.redundancy_s = max(self.redundancy_s or 0.0, time.monotonic() - self._fault_at)

    def wait(self, seconds: float | None = None) -> None:
        """Waits, by default for the duration of a fault."""
        self._never.wait(self.seconds if seconds is None else seconds)

    def wait_answers(self, timeout: float = _RECOVERY_TIMEOUT) -> None:
        """Waits until every partition has answered a request that was sent after the call."""
        moment, deadline = time.monotonic(), time.monotonic() + timeout
        while self.load.good_since(moment) != set(self.cluster.keys.of):
            if time.monotonic() > deadline:
                answered = sorted(self.load.good_since(moment))
                raise LocalError(f"only partitions {answered} answered within {timeout:g} s")
            self._never.wait(0.1)

    def history(self) -> TopicHistory:
        """The records of the current topic, for checking the answers."""
        return topic_history(
            self.cluster, self.writing, self.cluster.partitions, self.kept, self.since
        )


def run_scenario(
    scenario: Scenario,
    broker: Broker,
    folder: Path,
    *,
    seconds: float = 10.0,
    rate: float = 300.0,
    detour: TcpFaults | None = None,
    **settings: str,
) -> Result:
    """Runs a scenario on a new cluster. `settings` of the backends override those of tests. The
    result has `error` if the cluster does not recover, `skipped` if the fault is unsupported."""
    try:
        with Cluster(broker, folder, scenario.setup, detour, **settings) as cluster:
            return run_on(scenario, cluster, seconds, rate)
    except Unsupported as reason:
        return Result(scenario.name, skipped=str(reason))
    except Exception as error:  # the other scenarios must run in any case
        log.exception("scenario %s", scenario.name)
        return Result(scenario.name, error=repr(error))


def run_on(scenario: Scenario, cluster: Cluster, seconds: float, rate: float) -> Result:
    """Runs a scenario on a running, redundant cluster."""
    result = Result(scenario.name)
    load = ReadLoad(cluster.nginx.port, VIEW, cluster.keys.of, rate)
    writing = UpdateLoad(
        cluster.broker.bootstrap_servers,
        cluster.topic,
        cluster.keys.kept,
        cluster.keys.volatile,
        transactional=cluster.setup.transactional,
    )
    context = ScenarioContext(cluster, load, writing, seconds)
    with _errors_in(result), writing:
        with load:
            context.wait(_QUIET)
            with _errors_in(result):
                scenario.run(context)
                if scenario.heals:
                    context.wait_answers()
            context.wait(_QUIET)
        writing.stop()
        if difference := first_difference(cluster):
            result.error = result.error or f"the view differs from the topic: {difference}"
    histories = [*(former() for former in context.histories), context.history()]
    found = check(load.reads, histories, load.began, load.ended, load.stalls)
    result.redundancy_s = None if context.redundancy_s is None else round(context.redundancy_s, 2)
    result.stalled_ms = round(1000 * max((end - begin for begin, end in load.stalls), default=0.0))
    _fill(result, found)
    result.missed = _missed(result, scenario.target)
    return result


@contextmanager
def _errors_in(result: Result) -> Any:
    """Records an error of the block in the result, so that the answers are still checked."""
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
        missed.append(f"{result.failed} failed, {target.failed:.1%} are allowed")
    if target.silence_ms is not None and result.longest_silence_ms > target.silence_ms:
        missed.append(f"{result.longest_silence_ms:g} ms, {target.silence_ms:g} are allowed")
    return missed
