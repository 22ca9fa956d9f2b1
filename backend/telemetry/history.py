"""The last hour of an instance, in steps of ten seconds, and its last rebalances.

Pure: the caller passes in the time and what is counted. One thread writes; others may read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from backend.telemetry.buckets import quantile
from model.topology import NO_MEMBER, Topology

STEP_S: Final = 10
STEPS: Final = 360
MAX_REBALANCES: Final = 100


class Counted(NamedTuple):
    """What an instance has counted since its start. `lag`: of its actives now; None if unknown.
    `applied`: by view and partition, the records that each of its actives has applied since it was
    opened, also as a standby. `buckets`: requests by duration."""

    lag: int | None
    applied: Mapping[tuple[str, int], int]
    requests: int
    errors: int
    buckets: Sequence[int]


@dataclass(frozen=True)
class Sample:
    """One step. `at`: its start, s since 1970, a multiple of STEP_S. Rates are per second; `p99` is
    in ms, None without requests."""

    at: int
    lag: int | None
    ingest: float
    requests: float
    errors: float
    p99: float | None

    def document(self) -> list[float | None]:
        return [self.at, self.lag, self.ingest, self.requests, self.errors, self.p99]


class History:
    """At most STEPS samples and MAX_REBALANCES rebalances."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=STEPS)
        self._rebalances: deque[dict[str, Any]] = deque(maxlen=MAX_REBALANCES)
        self._before: tuple[float, Counted] | None = None
        self._rebalancing = 0.0

    def record(self, now: float, counted: Counted) -> None:
        """End a step. `now`: s since 1970. The first call begins the first step."""
        before, self._before = self._before, (now, counted)
        if before is None or now <= before[0]:
            return  # the clock went back
        began, earlier = before
        seconds = now - began
        p99 = quantile([a - b for a, b in zip(counted.buckets, earlier.buckets, strict=True)], 0.99)
        self._samples.append(
            Sample(
                int(began // STEP_S) * STEP_S,
                counted.lag,
                _rate(_applied(earlier, counted), seconds),
                _rate(counted.requests - earlier.requests, seconds),
                _rate(counted.errors - earlier.errors, seconds),
                None if p99 is None else round(p99 * 1000, 2),
            )
        )

    def rebalanced(self, now: float, before: Topology, after: Topology, rebalancing: float) -> None:
        """Record a new topology. `rebalancing`: s that this instance has spent in rebalances."""
        seconds, self._rebalancing = rebalancing - self._rebalancing, rebalancing
        old_ids, new_ids = ({m.id for m in topology.members} for topology in (before, after))
        self._rebalances.append(
            {
                "at": round(now * 1000),
                "epoch": str(after.epoch),
                "joined": sorted(new_ids - old_ids),
                "left": sorted(old_ids - new_ids),
                "moved": _moved(before, after),
                "seconds": round(max(0.0, seconds), 2),
            }
        )

    def document(self) -> dict[str, Any]:
        """{"samples": [[at, lag, ingest, requests, errors, p99], …], "rebalances": […]}."""
        return {
            "samples": [sample.document() for sample in list(self._samples)],
            "rebalances": list(self._rebalances),
        }


def _applied(earlier: Counted, counted: Counted) -> int:
    """The number of records that were applied in a step, by store partitions that were active at
    its start and at its end. A store that was built again has counted from 0."""
    both = counted.applied.keys() & earlier.applied.keys()
    return sum(max(0, counted.applied[id_] - earlier.applied[id_]) for id_ in both)


def _rate(count: float, seconds: float) -> float:
    return round(max(0.0, count) / seconds, 2)


def _moved(before: Topology, after: Topology) -> dict[str, int]:
    """View -> how many of its partitions have another active."""
    moved = {}
    for name, placed in after.views.items():
        old = before.views.get(name)
        old_actives = [] if old is None else [_id(before, i) for i in old.active]
        new_ids = [_id(after, i) for i in placed.active]
        number = sum(a != b for a, b in zip(old_actives, new_ids, strict=False)) + max(
            0, len(new_ids) - len(old_actives)
        )
        if number:
            moved[name] = number
    return moved


def _id(topology: Topology, index: int) -> str | None:
    return None if index == NO_MEMBER else topology.members[index].id


def merged(documents: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The history of the deployment, from the histories of its instances, by id.

    It has the same steps as each of them: lags and rates are sums, and p99 is the greatest. A lag
    is None if an instance does not know its own. If the clock of an instance has gone back, its
    latest sample of a step counts. A rebalance is listed once, with the longest duration, newest
    first.
    """
    steps: dict[int, dict[str, list[float | None]]] = {}
    rebalances: dict[str, dict[str, Any]] = {}
    # in the same order on each instance, because ties and sums of floats depend on it
    for id_, document in sorted(documents.items()):
        for sample in document.get("samples", ()):
            steps.setdefault(sample[0], {})[id_] = sample
        for rebalance in document.get("rebalances", ()):
            first = rebalances.setdefault(rebalance["epoch"], rebalance)
            # an instance that has just joined counts all partitions as moved
            known = min(rebalance, first, key=lambda report: sum(report["moved"].values()))
            seconds = max(rebalance["seconds"], first["seconds"])
            rebalances[rebalance["epoch"]] = {**known, "seconds": seconds}
    return {
        "step_s": STEP_S,
        "instances": sorted(documents),
        "samples": [[at, *_sum([*by_id.values()])] for at, by_id in sorted(steps.items())[-STEPS:]],
        "rebalances": sorted(rebalances.values(), key=lambda r: -r["at"])[:MAX_REBALANCES],
    }


def _sum(samples: list[list[float | None]]) -> list[float | None]:
    lags = [sample[1] for sample in samples]
    known = [lag for lag in lags if lag is not None]
    p99s = [p99 for sample in samples if (p99 := sample[5]) is not None]
    rates = [round(sum(sample[i] or 0.0 for sample in samples), 2) for i in (2, 3, 4)]
    return [sum(known) if len(known) == len(lags) else None, *rates, max(p99s, default=None)]
