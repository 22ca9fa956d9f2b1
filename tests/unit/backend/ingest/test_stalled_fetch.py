"""A consumer that fetches nothing, although there are records, is replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from backend.ingest import stalled_fetch
from backend.ingest.stalled_fetch import StalledFetch
from model.progress import Progress

LIMIT = stalled_fetch._MIN_CHECKS


class Fetching:
    """Store partitions without stores, and a clock: a call of `second` is a second."""

    def __init__(self, *partitions: Any) -> None:
        self.partitions = partitions
        self.now = 0.0
        registry: Any = SimpleNamespace(all=lambda: self.partitions)
        self.detector = StalledFetch(registry, 5.0, lambda: self.now)

    def second(self, end: int | None = 10) -> tuple[str, int] | None:
        """`end`: of the logs, as the broker says; None: it does not answer."""
        self.now += 1
        for each in self.partitions:
            if end is not None:
                each.progress.end_fetched(end, self.now)
        return self.detector.stalled()

    def seconds_until_stalled(self, most: int = 2000) -> int | None:
        return next((n for n in range(1, most + 1) if self.second() is not None), None)


def partition(
    position: int, number: int = 0, waiting_for: object = None, to_verify: object = None
) -> Any:
    return SimpleNamespace(
        view=SimpleNamespace(name="v"),
        partition=number,
        progress=Progress(position, position, True),
        waiting_for=waiting_for,
        to_verify=to_verify,
    )


def test_one_that_stays_behind_is_found() -> None:
    fetching = Fetching(partition(10), partition(4, 1))
    assert [fetching.second() for _ in range(LIMIT)] == [None] * LIMIT
    assert fetching.second() == ("v", 1)


def test_one_that_waits_for_the_comparison_of_its_last_record_is_found() -> None:
    """Regression: at the end of its log, it was catching up for ever."""
    assert Fetching(partition(10, to_verify="record 9")).seconds_until_stalled(100) == LIMIT + 1


def test_after_each_one_it_waits_longer_until_all_have_caught_up() -> None:
    behind = partition(4)
    fetching = Fetching(behind)
    found = [fetching.seconds_until_stalled() for _ in range(7)]
    assert found == [16, 31, 61, 121, 241, 301, 301]
    behind.progress.applied(10)
    fetching.second()
    behind.progress.applied(9)
    assert fetching.seconds_until_stalled() == LIMIT + 1


def test_one_that_advances_is_not_stalled() -> None:
    behind = partition(0)
    fetching = Fetching(behind)
    for position in range(200):
        behind.progress.applied(position // 10)
        assert fetching.second(1000) is None


def test_one_that_waits_for_a_schema_is_not_stalled() -> None:
    assert Fetching(partition(4, waiting_for="schema 7")).seconds_until_stalled(100) is None


def test_nothing_is_stalled_while_the_broker_does_not_answer() -> None:
    fetching = Fetching(partition(4))
    fetching.second()
    assert [fetching.second(None) for _ in range(100)] == [None] * 100


def test_a_blocked_thread_is_no_stalled_fetch() -> None:
    fetching = Fetching(partition(4))
    fetching.second()
    fetching.now += 1000
    assert fetching.second() is None
