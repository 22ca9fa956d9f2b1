"""Tests of answerability, lag and staleness, also against a simpler model."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.progress import ANSWERABLE, CATCHING_UP, Progress
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("position", "target_offset", "was_answerable", "answerable"),
    [(0, 10, False, False), (9, 10, False, False), (10, 10, False, True), (0, 0, False, True),
     (12, 10, False, True), (3, 10, True, True)],
)  # fmt: skip
def test_at_the_start(
    position: int, target_offset: int, was_answerable: bool, answerable: bool
) -> None:
    progress = Progress(position, target_offset, was_answerable)
    assert progress.answerable is answerable
    assert progress.state == (ANSWERABLE if answerable else CATCHING_UP)
    assert progress.lag(0, 60) is None
    assert progress.staleness(0) is None


def test_applied_returns_true_once_at_the_target_offset() -> None:
    progress = Progress(0, target_offset=10, answerable=False)
    assert [progress.applied(p) for p in (4, 9, 10, 11)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("position", "was_answerable", "at_once"),
    [(10, False, True), (3, True, True), (3, False, False)],
)
def test_without_verification_it_does_not_answer(
    position: int, was_answerable: bool, at_once: bool
) -> None:
    progress = Progress(position, 10, was_answerable, verified=False)
    assert not progress.applied(position)
    assert not progress.answerable
    assert progress.verify() is at_once
    assert progress.answerable is at_once
    assert not progress.verify()
    assert progress.applied(11) is not at_once


def test_the_target_offset_does_not_move_when_the_log_grows() -> None:
    progress = Progress(0, target_offset=10, answerable=False)
    progress.end_fetched(5_000_000, now=1)
    assert progress.applied(10)
    progress.end_fetched(9_000_000, now=2)
    assert progress.answerable


def test_an_end_before_the_target_offset_does_not_make_it_answerable() -> None:
    progress = Progress(3, target_offset=10, answerable=False)
    progress.end_fetched(3, now=1)  # fetched before the target offset
    assert not progress.answerable


def test_the_target_offset_is_that_of_a_truncated_log() -> None:
    progress = Progress(3, target_offset=10, answerable=False)
    progress.end_fetched(10, now=1)
    progress.end_fetched(5, now=2)
    assert [progress.applied(p) for p in (4, 5)] == [False, True]


def test_lag() -> None:
    progress = Progress(4, target_offset=0, answerable=True)
    progress.end_fetched(10, now=100)
    assert progress.lag(100, trusted_for_s=5) == 6
    progress.applied(9)
    assert progress.lag(105, trusted_for_s=5) == 1
    assert progress.lag(105.1, trusted_for_s=5) is None, "the end of the log is not known any more"
    progress.applied(12)  # after the end that was fetched
    assert progress.lag(105, trusted_for_s=5) == 0


def test_staleness() -> None:
    progress = Progress(10, target_offset=10, answerable=True)
    progress.end_fetched(10, now=100)
    assert progress.staleness(100) == 0
    assert progress.staleness(103) == 3, "it grows while the broker is unavailable"
    progress.end_fetched(12, now=104)
    assert progress.staleness(105) == 5
    progress.applied(12)
    assert progress.staleness(106) == 2, "all records that were in the log at 104 are applied"


def test_staleness_with_constant_writes() -> None:
    """The lag is never 0, but the staleness stays small."""
    progress = Progress(0, target_offset=0, answerable=True)
    values = []
    for second in range(1, 60):
        progress.end_fetched(second * 100, now=second)
        progress.applied(second * 100 - 10)
        values.append(progress.staleness(second))
    assert values[0] is None
    assert all(staleness is not None and staleness <= 2 for staleness in values[1:])


def test_an_open_transaction_makes_it_stale() -> None:
    """Regression: the staleness was 0, although committed records after it were not read."""
    progress = Progress(10, target_offset=10, answerable=True)
    progress.end_fetched(10, now=100, high=10)
    assert (progress.staleness(100), progress.open_transaction) == (0, None)
    progress.end_fetched(10, now=101, high=14)
    assert progress.open_transaction is None, "the high watermark may be a moment newer"
    progress.end_fetched(10, now=130, high=20)
    assert (progress.lag(130, 5), progress.staleness(130)) == (0, 30)
    assert progress.open_transaction == 29
    progress.end_fetched(20, now=131, high=20)
    assert progress.open_transaction is None
    progress.applied(14)
    assert progress.staleness(132) == 31, "the whole log of 101 is applied, and that of 130 is not"
    progress.applied(20)
    assert progress.staleness(132) == 31
    progress.end_fetched(20, now=132, high=20)
    assert progress.staleness(132) == 0


def test_a_store_that_opens_during_a_transaction_has_no_known_staleness() -> None:
    progress = Progress(10, target_offset=10, answerable=True)
    progress.end_fetched(10, now=100, high=14)
    progress.end_fetched(10, now=101, high=14)
    assert progress.answerable
    assert (progress.lag(101, 5), progress.staleness(101)) == (0, None)


def test_transactions_one_after_the_other_are_no_open_one() -> None:
    progress = Progress(0, target_offset=0, answerable=True)
    for second in range(1, 9):
        progress.applied(second * 10)
        progress.end_fetched(second * 10, now=second, high=second * 10 + 5)
        assert progress.open_transaction is None
    staleness = progress.staleness(8)
    assert staleness is not None
    assert staleness <= 2


@dataclass
class Model:
    """The position and all fetched ends."""

    position: int
    target_offset: int
    answerable: bool
    ends: list[tuple[float, int]] = field(default_factory=list)
    high_watermarks: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answerable |= self.position >= self.target_offset

    def apply(self, position: int) -> None:
        self.position = position
        self.answerable |= position >= self.target_offset

    def fetch(self, now: float, end: int, high: int) -> None:
        if self.ends:  # the first one is fetched with the target offset, or before it
            self.target_offset = min(self.target_offset, end)
        self.ends.append((now, end))
        self.high_watermarks.append((now, high))

    @property
    def caught_up_at(self) -> float | None:
        """The time of the latest fetch whose records have all been applied."""
        return max((t for t, high in self.high_watermarks if high <= self.position), default=None)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["apply", "fetch"]),
        st.integers(0, 5),
        st.sampled_from([0.5, 1, 4]),
        st.integers(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=examples(150))
@given(STEPS, st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_random_histories(
    steps: list[tuple[str, int, float, int]],
    position: int,
    target_offset: int,
    was_answerable: bool,
) -> None:
    progress, model = (of(position, target_offset, was_answerable) for of in (Progress, Model))
    now, end = 0.0, position
    for kind, by, seconds, held in steps:
        now += seconds
        if kind == "fetch":
            end = max(end, model.position) + by
            progress.end_fetched(end, now, end + held)
            model.fetch(now, end, end + held)
        else:
            model.apply(model.position + by)
            before = progress.answerable
            assert progress.applied(model.position) == (model.answerable and not before)
        assert progress.answerable == model.answerable
        assert progress.position == model.position
        if model.ends:
            assert progress.lag(now, 100) == max(0, model.ends[-1][1] - model.position)
        staleness = progress.staleness(now)
        if staleness is not None:
            # it must not be too small
            assert model.caught_up_at is not None
            assert staleness >= now - model.caught_up_at
        if kind == "fetch" and model.position >= end + held:
            assert staleness == 0


class Recorded(Progress):
    """Keeps whether it could answer, as often as that was set."""

    def __init__(self, position: int, target_offset: int, answerable: bool) -> None:
        self.could_answer: list[bool] = []
        super().__init__(position, target_offset, answerable)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "answerable":
            self.could_answer.append(bool(value))


def test_one_that_is_stopped_never_answers_again() -> None:
    """Not for a moment, in which another thread may look."""
    progress = Recorded(5, 5, True)
    assert progress.answerable
    progress.stop()
    assert not progress.applied(9)
    assert not progress.verify()
    progress.end_fetched(9, 1.0)
    assert not progress.answerable
    assert progress.state == CATCHING_UP
    assert progress.could_answer == [True, False]
