"""Whether views are complete: they have everything that was written before a moment.

A version or a deployment becomes current only if its views are complete as of the command:

1. All instances declare the view alike, and all its replicas are answerable.
2. Its pipeline runs, and has read its sources up to the ends that they had at that moment.
3. All replicas have applied the topic of the view up to the end that it had after that.
4. If it has pushes, all replicas have the newest one.

Records are written all the time, so this needs a few seconds: an instance fetches the ends of logs
every second or so. `wait_until_complete` waits for it.

An instance reports *how long ago* a pipeline or a replica had everything, by its own clock. So the
clocks of instances need not agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from backend.admin.topology import Peers, statuses_of
from backend.admin.version_status import (
    NOT_RUNNING,
    Statuses,
    behind_sources,
    declared_by,
    pipeline_is,
    records,
    replicas_of,
)
from backend.instance.context import InstanceContext
from model.machine.clock import boot_time
from model.pipelines.status import RUNNING, STARTING
from model.progress import ANSWERABLE
from model.views import View

PATIENCE = 5.0
"""Seconds that a command waits, if it does not say how long."""

MAX_PATIENCE = 50
"""The longest time (s) that a command may wait: less than nginx waits for an answer."""

_STEP = 0.2  # s

_N = TypeVar("_N", int, float)


@dataclass(frozen=True)
class Missing:
    """Why a view is not complete. `may_end`: whether it may become complete by itself. `lag`: the
    records that are missing. `seconds_left`: an estimate of the time until it is complete. Both are
    None if they are not known."""

    why: str
    may_end: bool = True
    lag: int | None = None
    seconds_left: float | None = None

    def document(self) -> dict[str, Any]:
        """Members for the problem document."""
        seconds = self.seconds_left
        return {
            "may_end": self.may_end,
            "lag": self.lag,
            "seconds_left": None if seconds is None else round(seconds, 1),
        }

    @property
    def text(self) -> str:
        if self.seconds_left is None:
            return self.why
        return f"{self.why}, about {self.seconds_left:,.0f} s"


class _Pace:
    """How fast a lag gets smaller."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def seconds_left(self, lag: int | None, now: float) -> float | None:
        if lag is None:
            return None
        if self._first is None or lag > self._first[1]:
            self._first = now, lag
        since, first = self._first
        return lag * (now - since) / (first - lag) if lag < first else None


class Completeness:
    """Decides whether the views are complete as of a moment, from the statuses that instances
    report again and again. No I/O."""

    def __init__(
        self,
        context: InstanceContext,
        views: Sequence[View],
        moment: float,
        max_lag: int | None = None,
        at_once: bool = False,
    ) -> None:
        """`moment`: s, of `boot_time`. `max_lag`: how many records a replica may lack, and how many
        records its pipeline may not have read yet. None: no record that was written before `moment`
        may be missing. `at_once`: for a status, which does not wait. Then replicas need what the
        topic had at `moment`, but not what the pipeline has written since."""
        self._context = context
        self._views = views
        self._moment = moment
        self._max_lag = max_lag
        self._at_once = at_once
        # by view: the time when its topic had all results from the sources
        self._written: dict[str, float] = {}
        self._paces: dict[tuple[str, str], _Pace] = {}

    def missing(self, statuses: Statuses, asked_at: float) -> Missing | None:
        """What is missing first; None if nothing is. `statuses`: asked for at `asked_at` (s)."""
        for view in self._views:
            missing = self._missing(view, statuses, asked_at)
            if missing is not None:
                several = len(self._views) > 1
                return (
                    replace(missing, why=f"view {view.base}: {missing.why}") if several else missing
                )
        return None

    def _missing(self, view: View, statuses: Statuses, asked_at: float) -> Missing | None:
        return (
            self._not_declared(view, statuses)
            or self._not_answerable(view, statuses)
            or self._not_pushed(view, statuses)
            or self._not_read(view)
            or self._not_applied(view, statuses, asked_at)
        )

    def _not_declared(self, view: View, statuses: Statuses) -> Missing | None:
        for member in self._context.group.topology.members:
            status = statuses.get(member.id, {})
            if "partitions" not in status:
                why = status.get("error") or status.get("state") or "unknown"
                return Missing(f"instance {member.id} does not say how far it is ({why})")
            hashes = declared_by(status, view.base).get("hashes", {})
            if hashes.get(str(view.version)) != view.hash:
                return Missing(
                    f"instance {member.id} does not declare it, or declares it differently: give "
                    "all instances the same views.toml",
                    may_end=False,
                )
        return None

    def _not_answerable(self, view: View, statuses: Statuses) -> Missing | None:
        reports = replicas_of(self._context, view, statuses)
        if not reports:
            return Missing(f"its topic {view.topic} does not exist, or has no owners yet")
        waiting = [report for report in reports if report["state"] != ANSWERABLE]
        if not waiting:
            return None
        first = waiting[0]
        left: list[float | None] = [report.get("seconds_left") for report in waiting]
        return Missing(
            f"{len(waiting)} of {len(reports)} replicas are not answerable, such as partition "
            f"{first['partition']} on {first['instance']}: {first['state']}",
            lag=_greatest(report["lag"] for report in waiting),
            seconds_left=_greatest(left),
        )

    def _not_pushed(self, view: View, statuses: Statuses) -> Missing | None:
        if view.push is None:
            return None
        by_instance: dict[str, Any] = {
            id_: push
            for id_, status in statuses.items()
            for push in status.get("pushes", ())
            if push["view"] == view.name
        }
        for id_, push in by_instance.items():
            if push["error"]:
                return Missing(f"its newest push cannot be used on {id_}: {push['error']}")
        newest = {push["push"] for push in by_instance.values()}
        if newest in (set(), {None}):
            return Missing("nothing has been pushed to it yet")
        if len(newest) > 1:
            return Missing("its instances do not all know the newest push yet")
        pushes = self._context.pushes
        count = None if pushes is None else pushes.partitions(view)
        for report in replicas_of(self._context, view, statuses):
            is_pushed = count is None or report["partition"] < count
            if is_pushed and report.get("push") not in newest:
                return Missing(
                    f"partition {report['partition']} on {report['instance']} does not have its "
                    f"newest push {min(map(str, newest))} yet"
                )
        return None

    def _not_read(self, view: View) -> Missing | None:
        """What the pipeline has not read of its sources."""
        pipeline = self._context.pipelines.get(view.name)
        if pipeline is None:
            self._written.setdefault(view.name, self._moment)
            return None
        now = boot_time()
        status, group = pipeline.status(now), pipeline.group
        if status.state in NOT_RUNNING:
            return Missing(pipeline_is(group, status), may_end=False, lag=status.lag)
        if status.state != RUNNING:
            state = "starting" if status.state == STARTING else "not known to run"
            return Missing(f"its pipeline {group} is {state}", lag=status.lag)
        if view.name in self._written:
            return None
        if self._max_lag is None:
            has_read = status.staleness is not None and now - status.staleness >= self._moment
        else:
            has_read = status.lag is not None and status.lag <= self._max_lag
        if has_read:
            self._written[view.name] = self._moment if self._at_once else now
            return None
        return Missing(
            f"its pipeline {group} is {behind_sources(status)}{self._most}",
            lag=status.lag,
            seconds_left=self._pace(view, "pipeline").seconds_left(status.lag, now),
        )

    def _not_applied(self, view: View, statuses: Statuses, asked_at: float) -> Missing | None:
        """What replicas have not applied of the topic."""
        reports = replicas_of(self._context, view, statuses)
        written = self._written[view.name]
        behind = [report for report in reports if not self._has_all(report, written, asked_at)]
        if not behind:
            return None
        lag = _greatest(report["lag"] for report in behind)
        return Missing(
            f"{len(behind)} of {len(reports)} replicas are up to {records(lag)} behind its topic, "
            f"such as partition {behind[0]['partition']} on {behind[0]['instance']}{self._most}",
            lag=lag,
            seconds_left=self._pace(view, "replicas").seconds_left(lag, asked_at),
        )

    def _has_all(self, report: Any, written: float, asked_at: float) -> bool:
        """Whether a replica has applied everything that was in its partition at `written`."""
        if self._max_lag is not None:
            return report["lag"] is not None and bool(report["lag"] <= self._max_lag)
        staleness = report["staleness"]  # ms, when it answered: not before `asked_at`
        return staleness is not None and bool(asked_at - staleness / 1000 >= written)

    @property
    def _most(self) -> str:
        return "" if self._max_lag is None else f"; at most {self._max_lag:,} may be missing"

    def _pace(self, view: View, part: str) -> _Pace:
        return self._paces.setdefault((view.name, part), _Pace())


def _greatest(numbers: Iterable[_N | None]) -> _N | None:
    """The greatest of some numbers; None if one is not known."""
    known = list(numbers)
    return None if None in known else max(known)  # type: ignore[type-var]


async def wait_until_complete(
    context: InstanceContext,
    peers: Peers,
    views: Sequence[View],
    max_lag: int | None = None,
    patience: float = PATIENCE,
) -> Missing | None:
    """What the views lack of everything that was written before this call; None if they are
    complete. Waits up to `patience` s, while that may help."""
    began = boot_time()
    completeness = Completeness(context, views, began, max_lag)
    while True:
        asked_at = boot_time()
        statuses = await asyncio.to_thread(statuses_of, context, peers)
        missing = completeness.missing(statuses, asked_at)
        if missing is None or not missing.may_end or boot_time() - began >= patience:
            return missing
        await asyncio.sleep(_STEP)
