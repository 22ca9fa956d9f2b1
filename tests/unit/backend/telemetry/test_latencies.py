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


def count(latencies: Latencies, labels: Labels, seconds: float, requests: int = 1) -> None:
    latencies.observe(latencies.series(labels), seconds, latencies._clock(), requests)


def test_requests_are_counted_by_their_labels() -> None:
    latencies = Latencies()
    missed = POINT._replace(status=404)
    count(latencies, POINT, 0.002)
    count(latencies, POINT, 0.004, requests=3)
    count(latencies, missed, 0.001)

    series = {labels: (sum(counts), seconds) for labels, counts, seconds in latencies.all()}

    assert series == {POINT: (4, pytest.approx(0.014)), missed: (1, 0.001)}


def test_more_series_than_allowed_are_counted_without_view() -> None:
    latencies = Latencies()
    for number in range(MAX_SERIES + 50):
        count(latencies, Labels("key", f"view-{number}", "active", 200), 0.001)

    series = {labels: sum(counts) for labels, counts, _ in latencies.all()}

    assert len(series) == MAX_SERIES + 1
    assert series[Labels("key", "", "", 200)] == 50


def test_the_last_minute_forgets_older_requests() -> None:
    clock = Clock()
    latencies = Latencies(clock)
    for _ in range(10):
        count(latencies, POINT, 5.0)
    clock.now += 61
    for _ in range(60):
        for _ in range(100):
            count(latencies, POINT, 0.010)
        clock.now += 1

    rate, p99 = latencies.recent()

    assert rate == pytest.approx(100, rel=0.05)
    assert p99 == pytest.approx(0.010, rel=0.1)
    clock.now += 120
    assert latencies.recent() == (0.0, None)


@pytest.mark.parametrize("route", ["internal/heartbeat", "health"])
def test_requests_of_instances_and_health_checks_are_not_those_of_clients(route: str) -> None:
    """An instance that starts answers its health checks with 503."""
    clock = Clock()
    latencies = Latencies(clock)
    count(latencies, Labels(route, "", "", 503), 0.001)
    clock.now += 1
    assert latencies.recent() == (0.0, None)
    assert latencies.client_totals()[:2] == (0, 0)
    count(latencies, Labels("key", "orders", "active", 503), 0.001)
    assert latencies.client_totals()[:2] == (1, 1)


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
            turn.note(latencies.series(Labels("key", "orders", "active", status)))
        await asyncio.sleep(0)
        # another turn
        turn.begin()
        turn.note(latencies.series(Labels("key", "orders", "standby", 200)))
        await asyncio.sleep(0)

    asyncio.run(run())

    series = {labels: (sum(counts), seconds) for labels, counts, seconds in latencies.all()}
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
    turn.note(latencies.series(Labels("key", "orders", "active", 200)))
    assert not any(sum(counts) for _, counts, _ in latencies.all())
