from __future__ import annotations

import threading

import pytest

from tests.support.background import Background


class Failing(Background):
    def __init__(self) -> None:
        super().__init__("failing", 2)
        self.begun = threading.Barrier(3)

    def _work(self, number: int) -> None:
        self.begun.wait(10)
        self._stop.wait(10)
        raise LookupError(number)

    def leave(self, error: BaseException | None) -> None:
        with self:
            self.begun.wait(10)
            if error is not None:
                raise error


def test_an_error_in_a_thread_is_raised_when_all_have_ended() -> None:
    failing = Failing()
    with pytest.raises(LookupError):
        failing.leave(None)
    assert len(failing.failures) == 2


def test_an_error_in_the_block_takes_precedence() -> None:
    with pytest.raises(ZeroDivisionError):
        Failing().leave(ZeroDivisionError())
