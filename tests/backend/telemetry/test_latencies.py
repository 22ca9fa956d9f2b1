"""Histograms by labels, the last minute, and the duration of reads that are answered together."""

from __future__ import annotations

import asyncio
from time import perf_counter

import pytest

from backend.telemetry.latencies import MAX_SERIES, Labels, Latencies, TurnReads

POINT = Labels("key", "orders", "active", 200)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_requests_are_counted_by_their_labels() -> None:
    latencies = Latencies()
    missed = POINT._replace(status=404)
    latencies.observe(POINT, 0.002)
    latencies.observe(POINT, 0.004, requests=3)
    latencies.observe(missed, 0.001)

    series = {labels: (sum(counts), seconds) for labels, counts, seconds in latencies.series()}

    assert series == {POINT: (4, pytest.approx(0.014)), missed: (1, 0.001)}


def test_more_series_than_allowed_are_counted_without_view() -> None:
    latencies = Latencies()
    for number in range(MAX_SERIES + 50):
        latencies.observe(Labels("key", f"view-{number}", "active", 200), 0.001)

    series = {labels: sum(counts) for labels, counts, _ in latencies.series()}

    assert len(series) == MAX_SERIES + 1
    assert series[Labels("key", "", "", 200)] == 50


def test_the_last_minute_forgets_older_requests() -> None:
    clock = Clock()
    latencies = Latencies(clock)
    for _ in range(10):
        latencies.observe(POINT, 5.0)
    clock.now += 61
    for _ in range(60):
        for _ in range(100):
            latencies.observe(POINT, 0.010)
        clock.now += 1

    rate, p99 = latencies.recent()

    assert rate == pytest.approx(100, rel=0.05)
    assert p99 == pytest.approx(0.010, rel=0.1)
    clock.now += 120
    assert latencies.recent() == (0.0, None)


def test_requests_between_instances_are_not_in_the_last_minute() -> None:
    clock = Clock()
    latencies = Latencies(clock)
    latencies.observe(Labels("internal/heartbeat", "", "", 200), 0.001)
    clock.now += 1
    assert latencies.recent() == (0.0, None)


def test_reads_of_one_turn_have_the_duration_of_the_whole_turn() -> None:
    latencies = Latencies()

    async def run() -> None:
        turn = TurnReads(latencies)
        turn.start(asyncio.get_running_loop())
        for status in (200, 200, 404):
            turn.begin()
            end = perf_counter() + 0.01
            while perf_counter() < end:
                pass
            turn.note(("key", "orders", "active", status))
        await asyncio.sleep(0)
        # the next turn begins anew
        turn.begin()
        turn.note(("key", "orders", "standby", 200))
        await asyncio.sleep(0)

    asyncio.run(run())

    series = {labels: (sum(counts), seconds) for labels, counts, seconds in latencies.series()}
    assert {labels: number for labels, (number, _) in series.items()} == {
        POINT: 2,
        POINT._replace(status=404): 1,
        POINT._replace(role="standby"): 1,
    }
    assert series[POINT][1] >= 2 * 0.03
    assert series[POINT._replace(role="standby")][1] < 0.01


def test_before_the_event_loop_runs_nothing_is_counted() -> None:
    latencies = Latencies()
    turn = TurnReads(latencies)
    turn.begin()
    turn.note(("key", "orders", "active", 200))
    assert not list(latencies.series())
