"""Medians, spreads and ratios."""

from __future__ import annotations

import pytest

from bench.spread import Spread, paired_ratio


def test_spread_is_the_middle_and_the_ends() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([4.0, 1.0]) == Spread(2.5, 1.0, 4.0)


def test_ratios_are_those_of_the_same_round() -> None:
    # a slow second round slows both sides: the ratio stays
    assert paired_ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == Spread(2.0, 2.0, 2.0)


def test_no_measurement_is_an_error_and_so_is_an_unpaired_one() -> None:
    with pytest.raises(ValueError, match="no measurement"):
        Spread.of([])
    with pytest.raises(ValueError, match="paired"):
        paired_ratio([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="no measurement"):
        paired_ratio([1.0], [0.0])
