"""Runs the job of some views on one kind of cluster, kills it, and checks the result."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException

from local.errors import LocalError, tail
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.waiting import stretch
from spark.formats.decoders import TextDecoder
from tests.pipelines.checking import Check
from tests.pipelines.feeder import Feeder
from tests.pipelines.job import LOCAL, LOCAL_CLUSTER, Job
from tests.pipelines.kills import Kind, Planner, perform
from tests.pipelines.phases import Phase, finished, phase
from tests.pipelines.positions import all_run, unread
from tests.pipelines.raw_records import PARTITIONS
from tests.pipelines.result import Result
from tests.pipelines.views import VIEWS
from tests.support.brokers import pause, resume

Report = Callable[[str], None]

KINDS = {
    LOCAL: (Kind.DRIVER, Kind.JVM, Kind.WORKER, Kind.DAEMON, Kind.ALL),
    LOCAL_CLUSTER: tuple(Kind),
}
# killed without ending the job
_REPLACED = {LOCAL: (Kind.WORKER, Kind.DAEMON), LOCAL_CLUSTER: (Kind.WORKER, Kind.EXECUTOR)}
_FIRST = 500  # records of each raw topic before the first start
_AIM_TIMEOUT = 20.0  # s after which a process is killed in any phase of a micro-batch
_BATCH_TIMEOUT = 60.0  # s after which a process is killed even between micro-batches
_PROGRESS_TIMEOUT = 150.0  # s in which each view must finish a micro-batch
_CATCH_UP_TIMEOUT = 240.0  # s
_LONG_END = 5.0  # s for a job's processes to end after a kill of one of them

_RAW = {"retention.ms": "-1", "segment.ms": "3153600000000"}
# The broker itself also compacts during the run.
_VIEW = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True)
class Options:
    """`kills` for each view. `away`: seconds without a broker, once. `rate`: records a second of
    each raw topic, until it has `limit`; then there are few. `pause`: longest time in seconds
    before a kill that does not wait for a phase. `seconds`: after this time, no process is killed
    any more."""

    views: Sequence[str]
    kills: int = 20
    away: float = 180.0
    seed: int = 0
    rate: float = 100.0
    limit: int = 60_000
    kinds: Sequence[Kind] | None = None
    pause: float = 12.0
    seconds: float = float("inf")


def run_on(master: str, options: Options, folder: Path, report: Report) -> list[Result]:
    """The results of all views. LocalError if the job makes no progress."""
    with Broker(folder / "broker", fresh=True) as broker, ExitStack() as stack:
        run = _Run(master, options, broker, folder, report)
        stack.callback(run.job.close)
        return run.results()


def uses_python(view: str) -> bool:
    """Whether Spark starts Python processes for a view."""
    return any(not isinstance(each.decoder, TextDecoder) for each in VIEWS[view].inputs)


class _Run:
    def __init__(
        self, master: str, options: Options, broker: Broker, folder: Path, report: Report
    ) -> None:
        self._master = master
        self._options = options
        self._broker = broker
        self._folder = folder
        self._report = report
        self._views = [VIEWS[name] for name in options.views]
        self._random = random.Random(options.seed)
        self._servers = broker.bootstrap_servers
        self._admin = quiet_admin(self._servers)
        self.job = Job(options.views, self._servers, master, folder)
        self._planner = Planner(
            options.seed,
            options.views,
            options.kills,
            options.kinds or KINDS[master],
            uses_python=uses_python,
            stateless=lambda name: not (self._checkpoint(name) / "state").exists(),
        )
        sources = dict.fromkeys(topic for view in self._views for topic in view.source_topics)
        self._feeder = Feeder(self._servers, sources, options.seed, options.rate, options.limit)
        self._errors: list[str] = []
        self._seconds_away = 0.0

    def results(self) -> list[Result]:
        self._create_topics()
        self._feeder.burst(_FIRST)
        with self._feeder:
            self._kill_all()
        self._report(f"waiting for {self._feeder.sent:,} records to be in the views")
        self._catch_up()
        if wrong := self.job.stop():
            self._errors.append(wrong)
        self._report("comparing the view topics with those of a batch job")
        return self._check()

    def _create_topics(self) -> None:
        raw = {topic for view in self._views for topic in view.source_topics}
        create_topics(self._admin, [Topic(name, PARTITIONS, _RAW) for name in sorted(raw)])
        create_topics(self._admin, [Topic(v.topic, v.partitions, _VIEW) for v in self._views])

    def _kill_all(self) -> None:
        """Half of the kills, the time without a broker, and the other kills."""
        self.job.keep_running()
        away_at = self._options.kills // 2
        was_away = not self._options.away
        deadline = time.monotonic() + self._options.seconds
        while not self._planner.is_done and time.monotonic() < deadline:
            fewest = min(self._planner.kills(view.name) for view in self._views)
            if not was_away and fewest >= away_at:
                was_away = True
                self._without_broker()
            self._kill_once()
        if not was_away:
            self._without_broker()
        self._settle()

    def _kill_once(self) -> None:
        plan = self._planner.next()
        if plan.settle:
            self._settle()
        if plan.aim is None:
            self._wait(lambda: False, plan.moment * self._options.pause)
        else:
            self._wait_for(plan.view, plan.aim)
        if not self._kill(plan.kind, plan.view):
            # there is no such process yet
            self._settle()
            return
        if plan.kind in (Kind.DRIVER, Kind.JVM):
            self._wait_end(plan.kind)

    def _wait_for(self, view: str, aim: Phase) -> None:
        """Waits for a phase of a view, or at least for a micro-batch: a kill counts only there. A
        job that was killed a moment ago may take longer than `_AIM_TIMEOUT` to start."""
        if not self._wait(lambda: self._phase(view) is aim, _AIM_TIMEOUT):
            self._wait(lambda: self._phase(view).in_batch, _BATCH_TIMEOUT)

    def _wait_end(self, kind: Kind) -> None:
        """Waits until the other processes of the killed job have ended, too. Meanwhile the job has
        started again."""
        starts, killed = self.job.starts, kind is Kind.DRIVER
        began = time.monotonic()
        if not self._wait(
            lambda: (killed or self.job.starts > starts) and not self.job.survivors(), 60, 0.1
        ):
            left = "".join(f"\n{each.pid} {each.command[:200]}" for each in self.job.survivors())
            raise LocalError(
                f"processes of the job live on after a kill of the {kind}; starts since then: "
                f"{self.job.starts - starts}{left}\n{tail(self.job.log(), 30)}"
            )
        if (waited := time.monotonic() - began) > _LONG_END:
            self._report(f"its other processes ended after {waited:.0f} s")

    def _kill(self, kind: Kind, view: str, remark: str = "") -> bool:
        """Kills a process, and reports it; whether there was one."""
        phases = {each.name: self._phase(each.name) for each in self._views}
        if not perform(kind, self.job, self._random):
            return False
        self._planner.record(kind, phases)
        fewest = min(self._planner.kills(each.name) for each in self._views)
        within = sum(phase.in_batch for phase in phases.values())
        about = remark or f"{view}: {phases[view]}"
        self._report(
            f"{fewest} of {self._options.kills} kills for each view: {kind}, {about}, "
            f"{within} of {len(self._views)} views in a micro-batch"
        )
        return True

    def _without_broker(self) -> None:
        """The broker is killed, or stops to answer. Meanwhile, one of the job's processes that it
        can replace is killed. The job itself must not end."""
        self._settle()
        seconds, starts = self._options.away, self.job.starts
        pauses = self._random.random() < 0.5
        self._report(f"the broker {'does not answer' if pauses else 'is down'} for {seconds:g} s")
        began = time.monotonic()
        if pauses:
            pause(self._broker)
        else:
            self._broker.kill()
        moment = self._random.random()
        self._wait(lambda: False, moment * seconds)
        self._kill(self._random.choice(_REPLACED[self._master]), "", "while the broker is away")
        self._wait(lambda: False, (1 - moment) * seconds)
        if pauses:
            resume(self._broker)
        else:
            self._broker.start()
        self._seconds_away = time.monotonic() - began
        self._settle()
        if self.job.starts > starts:
            self._errors.append("the job ended while the broker was away")
        self._report(f"all views continued after {time.monotonic() - began - seconds:.0f} s")

    def _settle(self) -> None:
        """Waits until each view has finished another micro-batch.

        A job that has just started gets no new records until all views run: with them, no view
        would catch up, and the job starts the next view only then or after a minute.
        """
        if not self._all_run():
            self._feeder.paused.set()
            if not self._wait(self._all_run, _PROGRESS_TIMEOUT, 0.05):
                raise self._stuck("some views have not started")
            self._feeder.paused.clear()
        before = {view.name: finished(self._checkpoint(view.name)) for view in self._views}

        def behind() -> list[str]:
            return [
                name for name, last in before.items() if finished(self._checkpoint(name)) <= last
            ]

        if not self._wait(lambda: not behind(), _PROGRESS_TIMEOUT, 0.05):
            raise self._stuck(f"no micro-batch of {', '.join(behind())} has finished")

    def _all_run(self) -> bool:
        return all_run(self.job.progress())

    def _catch_up(self) -> None:
        if not self._wait(lambda: not self._unread(), _CATCH_UP_TIMEOUT, 0.5):
            raise self._stuck(f"the job has not read all records of {', '.join(self._unread())}")

    def _unread(self) -> list[str]:
        try:
            return unread(self._admin, self._views, self.job.progress())
        except KafkaException as error:  # the broker has been restarted a moment ago
            return [f"topics whose ends are not known ({error})"]

    def _wait(self, condition: Callable[[], bool], timeout: float, interval: float = 0.004) -> bool:
        """Whether the condition is met in time. Meanwhile, the job is kept running."""
        began = time.monotonic()
        while not condition():
            self.job.keep_running()
            waited = time.monotonic() - began
            if waited > timeout and (timeout < 60 or waited > timeout * stretch()):
                return False
            time.sleep(interval)
        return True

    def _stuck(self, what: str) -> LocalError:
        return LocalError(f"{what} in time. The end of the job's log:\n{tail(self.job.log(), 30)}")

    def _checkpoint(self, view: str) -> Path:
        return self.job.checkpoints / view / "view"

    def _phase(self, name: str) -> Phase:
        # Before the query runs, its folder shows the phase of the last kill.
        if self.job.progress().get(name, {}).get("state") != "running":
            return Phase.STARTING
        view = VIEWS[name]
        logs = self._broker.data_dir / "logs"
        folders = [logs / f"{view.topic}-{number}" for number in range(view.partitions)]
        return phase(self._checkpoint(name), folders)

    def _check(self) -> list[Result]:
        check = Check(self._servers, self._views, self._folder)
        check.run_batch()
        errors = self._errors + [f"the job ended by itself: {why}" for why in self.job.unexpected]
        errors += [line for line in self.job.log().splitlines() if "Spark has dropped" in line]
        results = []
        for view in self._views:
            result = Result(
                view.name,
                self._master,
                kills=self._planner.kills(view.name),
                kinds=dict(self._planner.kinds(view.name)),
                phases=dict(self._planner.phases(view.name)),
                seed=self._options.seed,
                broker_away_s=round(self._seconds_away, 1),
                errors=list(errors),
            )
            if result.kills < self._options.kills:
                result.errors.append(f"{result.kills} of {self._options.kills} kills in the time")
            check.fill(result, view)
            results.append(result)
        return results
