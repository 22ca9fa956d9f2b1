"""When a store partition may answer, its lag and its staleness, against a model that is plainer."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.progress import ANSWERABLE, CATCHING_UP, Progress


@pytest.mark.parametrize(
    ("position", "goal", "was_answerable", "answerable"),
    [(0, 10, False, False), (9, 10, False, False), (10, 10, False, True), (0, 0, False, True),
     (12, 10, False, True), (3, 10, True, True)],
)  # fmt: skip
def test_at_the_start(position: int, goal: int, was_answerable: bool, answerable: bool) -> None:
    progress = Progress(position, goal, was_answerable)
    assert progress.answerable is answerable
    assert progress.state == (ANSWERABLE if answerable else CATCHING_UP)
    assert progress.lag(0, 60) is None
    assert progress.staleness(0) is None


def test_reaching_the_goal_is_told_once() -> None:
    progress = Progress(0, target_offset=10, answerable=False)
    assert [progress.applied(p) for p in (4, 9, 10, 11)] == [False, False, True, False]


def test_the_goal_stays_while_the_log_grows() -> None:
    progress = Progress(0, target_offset=10, answerable=False)
    progress.end_fetched(5_000_000, now=1)
    assert progress.applied(10)
    progress.end_fetched(9_000_000, now=2)
    assert progress.answerable


def test_an_end_that_is_not_reached_makes_nothing_answerable() -> None:
    progress = Progress(3, target_offset=10, answerable=False)
    progress.end_fetched(3, now=1)  # an answer from before the goal was known
    assert not progress.answerable


def test_lag() -> None:
    progress = Progress(4, target_offset=0, answerable=True)
    progress.end_fetched(10, now=100)
    assert progress.lag(100, trusted_for=5) == 6
    progress.applied(9)
    assert progress.lag(105, trusted_for=5) == 1
    assert progress.lag(105.1, trusted_for=5) is None, "nobody knows how far the log is by now"
    progress.applied(12)  # past the end that was fetched
    assert progress.lag(105, trusted_for=5) == 0


def test_staleness() -> None:
    progress = Progress(10, target_offset=10, answerable=True)
    progress.end_fetched(10, now=100)
    assert progress.staleness(100) == 0
    assert progress.staleness(103) == 3, "it grows while the broker is out of reach"
    progress.end_fetched(12, now=104)
    assert progress.staleness(105) == 5
    progress.applied(12)
    assert progress.staleness(106) == 2, "it holds all that was in the log at 104"


def test_staleness_under_a_constant_stream() -> None:
    """Always some records behind, it still knows that it is not long behind."""
    progress = Progress(0, target_offset=0, answerable=True)
    said = []
    for second in range(1, 60):
        progress.end_fetched(second * 100, now=second)
        progress.applied(second * 100 - 10)
        said.append(progress.staleness(second))
    assert said[0] is None
    assert all(staleness is not None and staleness <= 2 for staleness in said[1:])


@dataclass
class Model:
    """Every end ever fetched, and the position."""

    position: int
    goal: int
    answerable: bool
    ends: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answerable |= self.position >= self.goal

    def apply(self, position: int) -> None:
        self.position = position
        self.answerable |= position >= self.goal

    @property
    def at_end_at(self) -> float | None:
        """The newest fetch all of whose records have been applied."""
        return max((t for t, end in self.ends if end <= self.position), default=None)


STEPS = st.lists(
    st.tuples(st.sampled_from(["apply", "fetch"]), st.integers(0, 5), st.sampled_from([0.5, 1, 4])),
    max_size=40,
)


@settings(deadline=None, max_examples=150)
@given(STEPS, st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_any_history(
    steps: list[tuple[str, int, float]], position: int, goal: int, was_answerable: bool
) -> None:
    progress, model = (of(position, goal, was_answerable) for of in (Progress, Model))
    now, end = 0.0, position
    for kind, by, seconds in steps:
        now += seconds
        if kind == "fetch":
            end = max(end, model.position) + by
            progress.end_fetched(end, now)
            model.ends.append((now, end))
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
            # never fresher than it is
            assert model.at_end_at is not None
            assert staleness >= now - model.at_end_at
        if kind == "fetch" and model.position >= end:
            assert staleness == 0
