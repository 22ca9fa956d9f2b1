"""The buckets of latency histograms, and the error of a quantile."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from backend.telemetry.buckets import BOUNDS, BUCKETS, bucket_of, quantile


def histogram(durations: list[float]) -> list[int]:
    counts = [0] * BUCKETS
    for seconds in durations:
        counts[bucket_of(seconds)] += 1
    return counts


def test_bounds_are_less_than_10_percent_apart() -> None:
    assert (BOUNDS[0], BOUNDS[-1]) == (0.0001, 10.0)
    assert all(1 < high / low < 1.1 for low, high in pairwise(BOUNDS))
    assert {0.001, 0.01, 0.1, 1.0} <= set(BOUNDS)


def test_a_bound_is_in_the_bucket_below_it_as_le_says() -> None:
    assert bucket_of(BOUNDS[3]) == 3
    assert bucket_of(BOUNDS[3] * 1.0001) == 4
    assert bucket_of(0.0) == 0
    assert bucket_of(11.0) == BUCKETS - 1


@pytest.mark.parametrize(
    "draw",
    [
        lambda made: 0.0123,  # all the same: the worst case of an interpolation
        lambda made: BOUNDS[30] * 1.000001,
        lambda made: made.lognormvariate(-6.5, 0.7),
        lambda made: made.expovariate(1 / 0.004) + 0.0001,
        lambda made: made.choice([0.0005] * 60 + [0.2]),  # two kinds of requests
    ],
)  # fmt: skip
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_a_quantile_differs_by_less_than_10_percent_from_the_true_one(draw, share) -> None:
    made = random.Random(18)
    durations = sorted(draw(made) for _ in range(5000))
    true = durations[int(share * len(durations)) - 1]

    found = quantile(histogram(durations), share)

    assert found is not None
    assert abs(found - true) / true < 0.1


def test_without_requests_there_is_no_quantile() -> None:
    assert quantile([0] * BUCKETS, 0.99) is None


def test_a_quantile_above_the_last_bound_is_the_last_bound() -> None:
    assert quantile(histogram([60.0]), 0.99) == 10.0
