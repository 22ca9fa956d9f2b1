"""How much is measured: the full run, and the quick one that only shows that all of it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a run."""

    records: int
    rounds: int  # ours and the reference, in turn, so many times
    seconds: int  # of each load
    sample: int  # keys that are read back after a launch
    gets: int  # of bare RocksDB, a round
    rate: int  # records a second, written while reads are timed
    varied: int  # records of each topic that differs from the others in one factor
    huge: int = 0  # records of one more topic, for how cost grows
    connections: tuple[int, ...] = (1, 16, 64, 256)


FULL = Plan(
    records=1_000_000, rounds=3, seconds=1, sample=20_000, gets=200_000, rate=20_000,
    varied=100_000,
)  # fmt: skip
QUICK = Plan(
    records=20_000, rounds=1, seconds=1, sample=500, gets=5_000, rate=5_000, varied=5_000,
    connections=(1, 16, 64),
)  # fmt: skip
HUGE = 10_000_000
