"""Medians, spreads and ratios."""

from __future__ import annotations

import pytest

from bench.report import Spread, paired_ratio


def test_spread_has_the_median_the_least_and_the_greatest() -> None:
    assert Spread.from_values([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.from_values([4.0, 1.0]) == Spread(2.5, 1.0, 4.0)


def test_ratios_compare_the_same_round() -> None:
    # a slow second round slows both sides, and the ratio stays the same
    assert paired_ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == Spread(2.0, 2.0, 2.0)


def test_a_reference_may_have_failed_after_some_rounds_or_be_one_round_ahead() -> None:
    assert paired_ratio([2.0, 20.0, 9.0], [1.0, 5.0]) == Spread(3.0, 2.0, 4.0)
    assert paired_ratio([2.0], [1.0, 5.0]) == Spread(2.0, 2.0, 2.0)


def test_missing_measurements_are_errors() -> None:
    with pytest.raises(ValueError, match="no measurement"):
        Spread.from_values([])
    with pytest.raises(ValueError, match="no measurement"):
        paired_ratio([1.0], [0.0])
