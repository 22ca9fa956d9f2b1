"""Durations of requests: a histogram for each route, view, role and status, and the last minute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final, NamedTuple

from backend.telemetry.buckets import BUCKETS, bucket_of, quantile

MAX_SERIES: Final = 500
"""The most histograms of an instance. Routes and views are those of the deployment, so there are
fewer, unless it has very many views: then requests of further ones have no view."""

KEY: Final = "key"
INTERNAL_READS: Final = "internal/reads"
"""The routes of point reads, and of the requests in which proxies send several of them."""

RECENT_S: Final = 60.0
_SLOTS: Final = 12


class Labels(NamedTuple):
    """`view`: "" if the request is about none. `role`: of the store partition that answered;
    "several" if those of several roles did; "" if none did."""

    route: str
    view: str
    role: str
    status: int


class Series:
    """One histogram. `counts` are by bucket, not cumulative; `seconds` is their sum."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.seconds = 0.0


class Recent(NamedTuple):
    """Requests of clients and proxies in the last minute: their rate (1/s), and the 99th percentile
    of their duration (s; None without requests)."""

    requests_per_s: float
    p99: float | None


class Latencies:
    """Used in the event loop; `series` and `recent` in any thread."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._series: dict[Labels, Series] = {}
        self._began = clock()
        self._slots = [[0] * BUCKETS for _ in range(_SLOTS)]
        self._slot_numbers = [-1] * _SLOTS

    def observe(self, labels: Labels, seconds: float, requests: int = 1) -> None:
        """Count requests that took this long each."""
        series = self._series.get(labels)
        if series is None:
            series = self._add(labels)
        bucket = bucket_of(seconds)
        series.counts[bucket] += requests
        series.seconds += seconds * requests
        if not labels.route.startswith("internal/"):
            self._slot(self._clock())[bucket] += requests

    def _add(self, labels: Labels) -> Series:
        if len(self._series) >= MAX_SERIES:
            labels = Labels(labels.route, "", "", labels.status)
        return self._series.setdefault(labels, Series())

    def series(self) -> Iterator[tuple[Labels, list[int], float]]:
        """The labels, the counts and the sum (s) of each histogram."""
        for labels, series in sorted(self._series.copy().items()):
            yield labels, series.counts.copy(), series.seconds

    def of_clients(self) -> tuple[int, int, list[int]]:
        """Requests of clients and proxies since the start: all, those with a status of 500 or more,
        and their durations by bucket."""
        errors, counts = 0, [0] * BUCKETS
        for labels, series in self._series.copy().items():
            if not labels.route.startswith("internal/"):
                counts = [a + b for a, b in zip(counts, series.counts, strict=True)]
                errors += sum(series.counts) if labels.status >= 500 else 0
        return sum(counts), errors, counts

    def recent(self) -> Recent:
        """The last minute."""
        now = self._clock()
        number = int(now // (RECENT_S / _SLOTS))
        counts = [0] * BUCKETS
        for slot, of in zip(self._slots, self._slot_numbers, strict=True):
            if number - _SLOTS < of <= number:
                counts = [a + b for a, b in zip(counts, slot, strict=True)]
        # the oldest slot began up to a minute ago, and the newest has not ended
        covered = min(now - self._began, RECENT_S - RECENT_S / _SLOTS + now % (RECENT_S / _SLOTS))
        return Recent(sum(counts) / covered if covered > 0 else 0.0, quantile(counts, 0.99))

    def _slot(self, now: float) -> list[int]:
        number = int(now // (RECENT_S / _SLOTS))
        index = number % _SLOTS
        if self._slot_numbers[index] != number:
            self._slots[index] = [0] * BUCKETS
            self._slot_numbers[index] = number
        return self._slots[index]


class TurnReads:
    """Point reads that are answered in one turn of the event loop.

    All requests that have arrived are answered in the same turn, and the answers are sent at its
    end. So a client waits from the first request of the turn to its end, and this is the duration
    of each. The clock is read once for all of them. Hot path: `note`.
    """

    def __init__(self, latencies: Latencies) -> None:
        self._latencies = latencies
        self._call_soon: Callable[[Callable[[], None]], object] | None = None
        self._is_open = False
        self._began = 0.0
        self._reads: dict[tuple[str, str, str, int], int] = {}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count from now on."""
        self._call_soon = loop.call_soon

    def begin(self) -> None:
        """Call before the first read of a turn; later calls do nothing."""
        if not self._is_open and self._call_soon is not None:
            self._is_open = True
            self._began = perf_counter()
            self._call_soon(self._end)

    def note(self, labels: tuple[str, str, str, int], reads: int = 1) -> None:
        """Count answered reads. `labels`: as `Labels`."""
        if not self._is_open or not reads:
            return
        counts = self._reads
        counts[labels] = counts.get(labels, 0) + reads

    def _end(self) -> None:
        self._is_open = False
        seconds = perf_counter() - self._began
        reads, self._reads = self._reads, {}
        for labels, count in reads.items():
            self._latencies.observe(Labels._make(labels), seconds, count)
