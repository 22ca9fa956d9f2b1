"""The formula of a read's cost."""

from __future__ import annotations

from typing import Any

import pytest

from bench.models.read_cost import Model, Point, batch_share, fit, points_of

TRUE = Model(15.0, 120.0, 4.0)
AT = [(1, 1e6), (8, 1e6), (32, 1e6), (128, 1e6), (32, 1e5), (16, 1e5), (8, 1e5)]


def _points(model: Model) -> list[Point]:
    return [Point(batch, keys, model.cpu_us(batch, keys)) for batch, keys in AT]


def test_fit_recovers_the_coefficients() -> None:
    found = fit(_points(TRUE))
    assert (found.fixed, found.request, found.keys) == pytest.approx((15.0, 120.0, 4.0))
    assert found.max_error == pytest.approx(0.0, abs=1e-9)


def test_the_largest_error_is_reported() -> None:
    points = _points(TRUE)
    odd = Point(points[2].batch, points[2].keys, points[2].cpu_us * 1.5)
    assert 0.1 < fit([*points[:2], odd, *points[3:]]).max_error < 0.5


def test_no_coefficient_is_negative() -> None:
    found = fit(_points(Model(30.0, 120.0, -6.0)))
    assert found.keys == 0
    assert found.fixed > 0
    assert found.request == pytest.approx(120.0, rel=0.2)


@pytest.mark.parametrize("points", [[], _points(TRUE)[:2], _points(TRUE)[:4]])
def test_points_that_do_not_determine_the_coefficients_are_rejected(points: list[Point]) -> None:
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


def test_points_are_reads_by_proxy_that_vary_readers_backends_or_keys() -> None:
    assert points_of(DOCUMENT) == [
        Point(1.0, 1_000_000, 140.0),
        Point(6.0, 1_000_000, 70.0),
        Point(24.0, 100_000, 30.0),
        Point(4.0, 100_000, 60.0),
        Point(16.0, 1_000_000, 34.0),
    ]


def test_batch_share_is_a_share_of_the_readers_of_one_worker_and_backend() -> None:
    # 6 of 8, 24 of 32, 4 of 8, 16 of 32; a row with one reader does not count
    assert batch_share(DOCUMENT) == 0.625
    # 6 of 16, 24 of 64, 4 of 16, 16 of 64
    machine = {"cores": 2, "nginx_workers": 1}
    assert batch_share({**DOCUMENT, "machine": machine}) == 0.3125
