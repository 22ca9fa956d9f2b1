"""The size of a run: the full one, and the quick one, which only shows that the benchmark works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a run."""

    records: int
    rounds: int  # how often ours and the reference alternate
    seconds: int  # of each load
    sample: int  # keys that are read back after a launch
    gets: int  # of bare RocksDB, per round
    rate: int  # records a second, written while reads are timed
    varied: int  # records of each topic that varies one factor
    texts: int  # of the demo's texts, which jobs catch up with
    freshness: int  # records whose results are awaited one by one, per round
    connections: tuple[int, ...] = (1, 16, 64, 256)

    @property
    def is_full(self) -> bool:
        """Whether the run is large enough for targets, and for long warm-ups."""
        return self.records >= FULL.records


FULL = Plan(
    records=1_000_000, rounds=3, seconds=1, sample=20_000, gets=200_000, rate=20_000,
    varied=100_000, texts=500_000, freshness=40,
)  # fmt: skip
QUICK = Plan(
    records=20_000, rounds=1, seconds=1, sample=500, gets=5_000, rate=5_000, varied=5_000,
    texts=20_000, freshness=10,
    connections=(1, 16, 64),
)  # fmt: skip
