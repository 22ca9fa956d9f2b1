"""Median and spread of a few measurements, and ratios of measurements made in turn."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle, the least and the greatest of some measurements, in their own unit."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """ValueError when there is none."""
        if not values:
            raise ValueError("no measurement, no median")
        return cls(statistics.median(values), min(values), max(values))


def paired_ratio(ours: Sequence[float], reference: Sequence[float]) -> Spread:
    """Ratio by ratio, each of two measurements of the same round.

    What slowed the machine down in one round slowed both sides: the median of such ratios is
    steadier than the ratio of the medians.
    """
    if len(ours) != len(reference):
        raise ValueError(f"{len(ours)} measurements cannot be paired with {len(reference)}")
    return Spread.of([a / b for a, b in zip(ours, reference, strict=True) if b])
