"""The formula of a read's cost."""

from __future__ import annotations

from typing import Any

import pytest

from bench.model import Model, Point, fit, of_many_machines, points_of, queue_of

TRUE = Model(15.0, 120.0, 4.0)
AT = [(1, 1e6), (8, 1e6), (32, 1e6), (128, 1e6), (32, 1e5), (16, 1e5), (8, 1e5)]


def _points(model: Model) -> list[Point]:
    return [Point(queue, keys, model.cpu_us(queue, keys)) for queue, keys in AT]


def test_coefficients_are_found_again() -> None:
    found = fit(_points(TRUE))
    assert (found.fixed, found.request, found.keys) == pytest.approx((15.0, 120.0, 4.0))
    assert found.worst == pytest.approx(0.0, abs=1e-9)


def test_the_greatest_error_is_told() -> None:
    points = _points(TRUE)
    odd = Point(points[2].queue, points[2].keys, points[2].cpu_us * 1.5)
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


def test_a_queue_is_of_one_worker_and_one_backend_and_never_shorter_than_one() -> None:
    assert queue_of(64, 2, 1) == 32
    assert queue_of(64, 2, 4) == 8
    assert queue_of(1, 2, 1) == queue_of(64, 2, 200) == 1


def test_points_are_the_reads_by_proxy_with_other_readers_backends_and_keys() -> None:
    def row(name: str, connections: int, cpu_us: float, **more: float) -> dict[str, Any]:
        return {"name": name, "connections": connections, "cpu_us": cpu_us, "more": more}

    document = {
        "machine": {"cores": 2},
        "options": {"records": 1_000_000},
        "rows": [
            row("proxy", 16, 70.0),
            row("proxy-one-by-one", 16, 170.0),
            row("proxy-base", 64, 30.0, keys=100_000, backends=1),
            row("proxy-zipf", 64, 29.0, keys=100_000, backends=1),
            row("proxy-backends-4", 64, 60.0, keys=100_000, backends=4),
            row("proxy-keys-1000000", 64, 34.0, keys=1_000_000, backends=1),
        ],
    }
    assert points_of(document) == [
        Point(8, 1_000_000, 70.0),
        Point(32, 100_000, 30.0),
        Point(8, 100_000, 60.0),
        Point(32, 1_000_000, 34.0),
    ]


def test_a_hundred_machines_have_so_many_cores_for_reads_of_that_cost() -> None:
    said = of_many_machines(Model(20.0, 80.0, 0.0), cores=2, keys=1_000_000)
    # 200 cores; 100 µs a read alone, 20 + 80 / 8 = 30 µs where eight share a request
    assert "costs 100 µs, so 2.0 million reads/s" in said
    assert "costs 30 µs: 6.7 million reads/s" in said
    # a queue for each of 2 workers and 200 backends; 2 workers and 2 backends on the same machine
    assert "from 400 connections" in said
    assert "With 3,200 connections a machine, or 32 where" in said
