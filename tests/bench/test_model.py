"""The formula of a read's cost."""

from __future__ import annotations

from typing import Any

import pytest

from bench.model import Model, Point, fit, of_many_machines, points_of, shared

TRUE = Model(15.0, 120.0, 4.0)
AT = [(1, 1e6), (8, 1e6), (32, 1e6), (128, 1e6), (32, 1e5), (16, 1e5), (8, 1e5)]


def _points(model: Model) -> list[Point]:
    return [Point(batch, keys, model.cpu_us(batch, keys)) for batch, keys in AT]


def test_coefficients_are_found_again() -> None:
    found = fit(_points(TRUE))
    assert (found.fixed, found.request, found.keys) == pytest.approx((15.0, 120.0, 4.0))
    assert found.worst == pytest.approx(0.0, abs=1e-9)


def test_the_greatest_error_is_told() -> None:
    points = _points(TRUE)
    odd = Point(points[2].batch, points[2].keys, points[2].cpu_us * 1.5)
    assert 0.1 < fit([*points[:2], odd, *points[3:]]).worst < 0.5


def test_nothing_costs_less_than_nothing() -> None:
    found = fit(_points(Model(30.0, 120.0, -6.0)))
    assert found.keys == 0
    assert found.fixed > 0
    assert found.request == pytest.approx(120.0, rel=0.2)


@pytest.mark.parametrize("points", [[], _points(TRUE)[:2], _points(TRUE)[:4]])
def test_points_that_tell_nothing_apart_are_refused(points: list[Point]) -> None:
    with pytest.raises(ValueError, match="too few"):
        fit(points)


def _row(name: str, connections: int, cpu_us: float, **more: float) -> dict[str, Any]:
    return {"name": name, "connections": connections, "cpu_us": cpu_us, "more": more}


DOCUMENT = {
    "machine": {"cores": 2},
    "options": {"records": 1_000_000},
    "rows": [
        _row("proxy", 1, 140.0, batch=1.0),
        _row("proxy", 16, 70.0, batch=6.0),
        _row("proxy-one-by-one", 16, 170.0, batch=1.0),
        _row("proxy-base", 64, 30.0, batch=24.0, keys=100_000, backends=1),
        _row("proxy-zipf", 64, 29.0, batch=25.0, keys=100_000, backends=1),
        _row("proxy-backends-4", 64, 60.0, batch=4.0, keys=100_000, backends=4),
        _row("proxy-keys-1000000", 64, 34.0, batch=16.0, keys=1_000_000, backends=1),
    ],
}


def test_points_are_the_reads_by_proxy_with_other_readers_backends_and_keys() -> None:
    assert points_of(DOCUMENT) == [
        Point(1.0, 1_000_000, 140.0),
        Point(6.0, 1_000_000, 70.0),
        Point(24.0, 100_000, 30.0),
        Point(4.0, 100_000, 60.0),
        Point(16.0, 1_000_000, 34.0),
    ]


def test_a_batch_has_a_part_of_those_who_ask_one_backend_by_one_worker() -> None:
    # 6 of 8, 24 of 32, 4 of 8, 16 of 32; one reader alone tells nothing
    assert shared(DOCUMENT) == 0.625


def test_a_hundred_machines_have_so_many_cores_for_reads_of_that_cost() -> None:
    said = of_many_machines(Model(20.0, 80.0, 0.0), part=0.5, cores=2, keys=1_000_000)
    # 200 cores; 100 µs a read alone, 20 + 80 / 8 = 30 µs where eight travel together
    assert "costs 100 µs, so 2.0 million reads/s" in said
    assert "costs 30 µs: 6.7 million reads/s" in said
    # two readers for each of 2 workers and 200 backends; 2 workers and 2 backends of one machine
    assert "from 800 connections" in said
    assert "With 6,400 connections a machine, or 64 where" in said
