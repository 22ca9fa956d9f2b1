"""The buckets of all latency histograms.

25 buckets a decade: each upper bound is 9.6 % above the one before. For all durations in a bucket,
`histogram_quantile` of Prometheus takes some value between the bounds of the bucket. So a quantile
from 0.1 ms to 10 s differs by less than 10 % from the true quantile. `proxy/telemetry/buckets.lua`
has the same bounds, so histograms of backends and proxies can be compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

PER_DECADE: Final = 25
BOUNDS: Final = tuple(
    float(f"{10 ** (exponent / PER_DECADE):.4g}")
    for exponent in range(-4 * PER_DECADE, PER_DECADE + 1)
)
"""Upper bounds (s), from 0.1 ms to 10 s. The last bucket has all longer durations."""

BUCKETS: Final = len(BOUNDS) + 1


def bucket_of(seconds: float) -> int:
    """The index of the bucket of a duration."""
    return bisect_left(BOUNDS, seconds)


def quantile(counts: Sequence[int], share: float) -> float | None:
    """The quantile in s, as `histogram_quantile` of Prometheus computes it; None without counts.

    `counts`: the count of each bucket, not cumulative. The result is the highest bound if the
    quantile is above that.
    """
    total = sum(counts)
    if not total:
        return None
    rank, below = share * total, 0
    for index, count in enumerate(counts[:-1]):
        if count and below + count >= rank:
            low = BOUNDS[index - 1] if index else 0.0
            return low + (BOUNDS[index] - low) * (rank - below) / count
        below += count
    return BOUNDS[-1]
