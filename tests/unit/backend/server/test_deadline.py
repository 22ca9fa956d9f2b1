"""Tests of the deadline: it expires once, at the time that was set last."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, cast

import pytest

from backend.server.deadline import Deadline


class Handle:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """An event loop whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None], Handle]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> Handle:
        handle = Handle()
        self.timers.append((self.now + seconds, call, handle))
        return handle

    def advance_to(self, end: float) -> None:
        while due := [t for t in self.timers if t[0] <= end]:
            timer = min(due, key=lambda t: t[0])
            self.timers.remove(timer)
            self.now = timer[0]
            if not timer[2].is_cancelled:
                timer[1]()
        self.now = end


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def expired() -> list[float]:
    return []


@pytest.fixture
def deadline(loop: Loop, expired: list[float]) -> Deadline:
    return Deadline(cast(AbstractEventLoop, cast(Any, loop)), lambda: expired.append(loop.now))


def test_it_expires_once(loop: Loop, deadline: Deadline, expired: list[float]) -> None:
    deadline.set(5)
    loop.advance_to(100)
    assert expired == [5]


def test_reset_to_a_later_time(loop: Loop, deadline: Deadline, expired: list[float]) -> None:
    for _ in range(10):
        deadline.set(5)
        loop.advance_to(loop.now + 3)
    assert expired == []
    loop.advance_to(100)
    assert expired == [27 + 5]


def test_a_reset_to_a_later_time_starts_no_timer(loop: Loop, deadline: Deadline) -> None:
    for _ in range(1000):
        deadline.set(5)
    assert len(loop.timers) == 1


def test_reset_to_an_earlier_time(loop: Loop, deadline: Deadline, expired: list[float]) -> None:
    deadline.set(75)
    deadline.set(1)
    loop.advance_to(100)
    assert expired == [1]


def test_cleared_and_set_again(loop: Loop, deadline: Deadline, expired: list[float]) -> None:
    deadline.set(5)
    deadline.clear()
    loop.advance_to(10)
    assert expired == []
    deadline.set(5)
    loop.advance_to(100)
    assert expired == [15]


def test_closed(loop: Loop, deadline: Deadline, expired: list[float]) -> None:
    deadline.set(5)
    deadline.close()
    loop.advance_to(100)
    assert expired == []
    assert loop.timers == []
