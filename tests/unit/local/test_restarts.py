from __future__ import annotations

from local.stack.restarts import Restarts


def test_pauses_grow_until_the_process_runs_well() -> None:
    now = 0.0
    restarts = Restarts(lambda: now)
    pauses = []
    for _ in range(7):
        pause = restarts.ended("backend-1")
        pauses.append(pause)
        now += pause - 0.1
        assert restarts.take_due() == []
        now += 0.2
        assert restarts.take_due() == ["backend-1"]
        assert restarts.take_due() == []
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert restarts.ended("nginx") == 1, "each process has its own pauses"
    now += 61
    assert restarts.take_due() == ["nginx"]
    assert restarts.ended("backend-1") == 1
