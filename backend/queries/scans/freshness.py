"""How fresh the answer of several partitions is."""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.queries.routing import ReadOptions
from backend.queries.scans.partition_scan import worst
from backend.queries.served_by import ServedBy
from backend.wire.scan import ScanResponse
from model.problems import BadRequest, RetryLater


@dataclass
class Freshness:
    """The highest lag and staleness of the partitions that were read; None if one is unknown."""

    lags: list[int | None] = field(default_factory=list)
    ages: list[float | None] = field(default_factory=list)
    mispartitioned: bool = False  # a key may be in several partitions
    stream_time: int | None = None  # ms; the latest of all
    answerers: ServedBy = field(default_factory=ServedBy)
    entries: int = 0  # that were read; a key in two partitions has two
    examined: int = 0  # entries that were read
    plans: set[str] = field(default_factory=set)  # how the entries were found
    positions: dict[int, int] = field(default_factory=dict)  # of partitions; the least seen
    unreadable: int = 0  # entries whose values a query needs and that cannot be read
    unread: set[int] = field(default_factory=set)  # partitions that are being opened

    def note(self, part: ScanResponse) -> None:
        # only the highest so far is needed
        self.lags = [worst([*self.lags, part.lag])]
        self.ages = [worst([*self.ages, part.staleness])]
        self.mispartitioned = self.mispartitioned or part.mispartitioned
        self.entries += part.counted
        self.examined += part.examined
        self.plans.update(part.plans)
        for partition, position in part.positions.items():
            # a later page may be from a standby that is not as far
            self.positions[partition] = min(position, self.positions.get(partition, position))
        if part.stream_time is not None:
            self.stream_time = max(part.stream_time, self.stream_time or part.stream_time)
        if part.instance:
            self.answerers.add(part.instance, part.roles)

    def note_unread(self, partition: int) -> None:
        """Note that the answer is without this partition, so its lag is unknown."""
        self.unread.add(partition)
        self.lags, self.ages = [None], [None]

    def check_examined(self, most: int | None) -> None:
        """Raises BadRequest if more entries were read than `max_examined` allows."""
        if most is not None and self.examined > most:
            raise BadRequest(
                "too-many-entries",
                f"The query would examine more than {most} entries, the max_examined of the "
                f"request. Narrow it, or allow more.",
                limit=most,
            )

    def check(self, options: ReadOptions) -> None:
        """RetryLater if the answer is not within the bounds of the options."""
        for partition, wanted in (options.min_offsets or {}).items():
            position = self.positions.get(partition)
            if partition in self.unread or (position is not None and position <= wanted):
                raise RetryLater(
                    "not-up-to-offset",
                    f"Partition {partition} is at offset {position or 0}; min_offset is {wanted}.",
                    partition=partition,
                    position=position or 0,
                )
        if options.max_lag is not None and (self.lag is None or self.lag > options.max_lag):
            known = "an unknown number of" if self.lag is None else self.lag
            raise RetryLater(
                "too-far-behind",
                f"A partition of the key is {known} records behind; max_lag is {options.max_lag}.",
            )
        limit, age = options.max_staleness, self.staleness
        if limit is not None and (age is None or age > limit):
            known = "of unknown age" if age is None else f"{age:.3f} s old"
            raise RetryLater(
                "too-stale", f"A partition of the key is {known}; max_staleness is {limit} s."
            )

    @property
    def lag(self) -> int | None:
        return worst(self.lags)

    @property
    def staleness(self) -> float | None:
        return worst(self.ages)
