"""Median and spread of a few measurements, and ratios of alternating measurements."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, the least and the greatest of some measurements, in their unit."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Raises ValueError if there is no measurement."""
        if not values:
            raise ValueError("no measurement, no median")
        return cls(statistics.median(values), min(values), max(values))


def paired_ratio(ours: Sequence[float], reference: Sequence[float]) -> Spread:
    """The spread of the ratios of both measurements of each round.

    Noise in one round slows both sides, so the median of these ratios varies less than the ratio of
    the medians. The reference has fewer rounds if it has failed, or while a round is measured; ours
    has at most one round less.
    """
    if len(reference) > len(ours) + 1:
        raise ValueError(f"{len(ours)} measurements cannot be paired with {len(reference)}")
    return Spread.of([a / b for a, b in zip(ours, reference, strict=False) if b])
