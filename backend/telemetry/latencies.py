"""Durations of requests: a histogram for each route, view, role and status, and the last minute."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final, NamedTuple

from backend.telemetry.buckets import BOUNDS, BUCKETS, quantile
from backend.telemetry.rate_limited_log import RateLimitedLog

log = RateLimitedLog(logging.getLogger(__name__))

MAX_SERIES: Final = 500
"""The maximum number of histograms of an instance. Routes and views are those of the
deployment, so there are fewer, unless it has very many views. Then requests of further views are
counted without a view."""

KEY: Final = "key"
INTERNAL_READS: Final = "internal/reads"
"""The routes of point reads, and of the requests in which proxies send several of them."""

RECENT_S: Final = 60.0
_SLOTS: Final = 12
_SLOT_S: Final = RECENT_S / _SLOTS


def not_counted(error: Exception) -> None:
    """Log an error in counting requests, which must not make the requests fail."""
    log.warn("requests", f"requests are not counted: {error!r}", error)


class Labels(NamedTuple):
    """`view`: "" if the request is about no view. `role`: the role of the store partition that
    answered; "several" if store partitions of several roles answered; "" if none answered."""

    route: str
    view: str = ""
    role: str = ""
    status: int = 200

    @property
    def is_of_clients(self) -> bool:
        """Whether these are requests of clients: not of other instances, and not health checks,
        which get a 503 until the instance is ready."""
        return self.route != "health" and not self.route.startswith("internal/")


class Series:
    """One histogram. `counts` are by bucket, not cumulative; `seconds` is their sum."""

    __slots__ = ("counts", "is_recent", "seconds")

    def __init__(self, is_recent: bool) -> None:
        """`is_recent`: whether its requests count for the last minute."""
        self.counts = [0] * BUCKETS
        self.seconds = 0.0
        self.is_recent = is_recent


class Recent(NamedTuple):
    """Requests of clients in the last minute: their rate (1/s), and the 99th percentile of their
    duration (s; None without requests)."""

    requests_per_s: float
    p99: float | None


class Latencies:
    """The histograms of an instance. Used in the event loop; `all` and `recent` in any thread."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._series: dict[Labels, Series] = {}
        self._began = clock()
        self._slots = [[0] * BUCKETS for _ in range(_SLOTS)]
        self._slot_numbers = [-1] * _SLOTS
        self._slot, self._slot_ends = self._slots[0], 0.0

    def series(self, labels: Labels) -> Series:
        """The histogram of these labels, for `observe`."""
        series = self._series.get(labels)
        if series is not None:
            return series
        if len(self._series) >= MAX_SERIES:
            labels = Labels(labels.route, "", "", labels.status)
        return self._series.setdefault(labels, Series(labels.is_of_clients))

    def observe(self, series: Series, seconds: float, ended: float, requests: int = 1) -> None:
        """Count requests that took this long each. `ended`: the time of their end (s, of the
        clock). Hot path."""
        bucket = bisect_left(BOUNDS, seconds)
        series.counts[bucket] += requests
        series.seconds += seconds * requests
        if series.is_recent:
            if ended >= self._slot_ends:
                self._next_slot(ended)
            self._slot[bucket] += requests

    def all(self) -> Iterator[tuple[Labels, list[int], float]]:
        """The labels, the counts and the sum (s) of each histogram."""
        for labels, series in sorted(self._series.copy().items()):
            yield labels, series.counts.copy(), series.seconds

    def client_totals(self) -> tuple[int, int, list[int]]:
        """Requests of clients since the start: all, those with a status of 500 or more, and their
        durations by bucket."""
        errors, counts = 0, [0] * BUCKETS
        for labels, series in self._series.copy().items():
            if labels.is_of_clients:
                counts = [a + b for a, b in zip(counts, series.counts, strict=True)]
                errors += sum(series.counts) if labels.status >= 500 else 0
        return sum(counts), errors, counts

    def recent(self) -> Recent:
        """The requests of the last minute."""
        now = self._clock()
        number = int(now // _SLOT_S)
        counts = [0] * BUCKETS
        for slot, slot_number in zip(self._slots, self._slot_numbers, strict=True):
            if number - _SLOTS < slot_number <= number:
                counts = [a + b for a, b in zip(counts, slot, strict=True)]
        # the newest slot has not ended
        covered = min(now - self._began, RECENT_S - _SLOT_S + now % _SLOT_S)
        return Recent(sum(counts) / covered if covered > 0 else 0.0, quantile(counts, 0.99))

    def _next_slot(self, now: float) -> None:
        number = int(now // _SLOT_S)
        index = number % _SLOTS
        self._slots[index] = self._slot = [0] * BUCKETS
        self._slot_numbers[index] = number
        self._slot_ends = (number + 1) * _SLOT_S


class TurnReads:
    """Point reads that are answered in one turn of the event loop.

    All requests that have arrived are answered in the same turn, and the answers are sent at its
    end. So a client waits from the first request of the turn to its end, and this is the duration
    of each. The clock is read twice for all of them. Hot path: `begin` and `note`.
    """

    def __init__(self, latencies: Latencies) -> None:
        self._latencies = latencies
        self._call_soon: Callable[[Callable[[], None]], object] | None = None
        self._is_open = False
        self._began = 0.0
        self._reads: list[tuple[Series, int]] = []

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count from now on."""
        self._call_soon = loop.call_soon

    def begin(self) -> None:
        """Call before the first read of a turn; later calls do nothing."""
        if not self._is_open and self._call_soon is not None:
            self._is_open = True
            self._began = perf_counter()
            self._call_soon(self._end)

    def note(self, series: Series, reads: int = 1) -> None:
        """Count answered reads."""
        if self._is_open:
            self._reads.append((series, reads))

    def _end(self) -> None:
        self._is_open = False
        ended = perf_counter()
        seconds = ended - self._began
        observe = self._latencies.observe
        for series, reads in self._reads:
            try:
                observe(series, seconds, ended, reads)
            except Exception as error:
                not_counted(error)
        self._reads.clear()
