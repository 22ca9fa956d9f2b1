"""What an instance counts and measures of itself, for its metrics and its admin page."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from backend.telemetry.history import History
from backend.telemetry.latencies import Latencies
from backend.telemetry.peer_counts import PeerCounts
from backend.telemetry.rebalances import Rebalances
from backend.telemetry.spans import Spans
from model.topology import Topology
from model.views import View

PLANS = ("key", "index", "range", "scan")
"""How queries of whole views find their entries, the cheapest first."""


@dataclass
class ReadCounts:
    """The point reads of a view since the start, by outcome. Only the event loop writes."""

    found: int = 0
    missed: int = 0
    unavailable: int = 0
    forwarded: int = 0
    refused: int = 0

    @property
    def served(self) -> int:
        return self.found + self.missed


@dataclass
class ScanCounts:
    """The scans of a view since the start. Only the event loop writes.

    `requests` and `seconds`: client requests by kind (page, stream, or the name of a query), and
    their duration (s, including the time in which clients read). `plans`: answered client requests
    by the costliest plan that found their entries. `entries`: entries read from this instance's
    partitions by plan, also for other instances. Plans are those of `PLANS`.
    """

    requests: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    plans: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLANS, 0))
    entries: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLANS, 0))

    def __post_init__(self) -> None:
        self.add_kind("page")
        self.add_kind("stream")

    def add_kind(self, kind: str) -> None:
        """Adds a kind, so that the metrics have a series for it from 0 on."""
        self.requests.setdefault(kind, 0)
        self.seconds.setdefault(kind, 0.0)

    def note_plans(self, plans: Iterable[str]) -> None:
        """Count an answered request. `plans`: as in the header Plan, at least one."""
        self.plans[max(map(_kind_of, plans), key=PLANS.index)] += 1

    def note_entries(self, entries: Mapping[str, int]) -> None:
        """Count entries that were read, by plan as in the header Plan."""
        for plan, number in entries.items():
            self.entries[_kind_of(plan)] += number


def _kind_of(plan: str) -> str:
    """`index` of `index by-dest`. A plan of a newer instance counts as a scan."""
    kind = plan.partition(" ")[0]
    return kind if kind in PLANS else PLANS[-1]


class Telemetry:
    """`counts`, `scans`: by view. `over_quota`: refused requests, by view with a quota."""

    def __init__(self, views: Mapping[str, View], spans: Spans | None = None) -> None:
        """`views`: by name. `spans`: for OpenTelemetry."""
        self.spans = spans
        self.counts = {name: ReadCounts() for name in views}
        self.scans = {name: ScanCounts() for name in views}
        self.over_quota = {name: 0 for name, view in views.items() if view.quota}
        self.latencies = Latencies()
        self.peer_counts = PeerCounts()
        self.rebalances = Rebalances()
        self.history = History()

    def reads_served(self) -> int:
        """How many reads of keys of all views were answered here."""
        return sum(counts.served for counts in self.counts.values())

    def rebalanced(self, before: Topology, after: Topology, instance: str, seconds: float) -> None:
        """Record that `after` has replaced `before`. `seconds`: that the instance has spent in
        rebalances since its start."""
        self.rebalances.record(before, after, instance)
        self.history.rebalanced(time.time(), before, after, seconds)
