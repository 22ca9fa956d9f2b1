from __future__ import annotations

import os
from itertools import count

import pytest

from local import waiting
from local.errors import LocalError
from local.waiting import MAX_STRETCH, stretch, wait_until

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("load", "expected"), [(0.0, 1.0), (1.0, 1.0), (3.0, 3.0), (100.0, MAX_STRETCH)]
)
def test_a_loaded_machine_gets_more_time(
    monkeypatch: pytest.MonkeyPatch, load: float, expected: float
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load * CORES, 0.0, 0.0))
    assert stretch() == pytest.approx(expected)


@pytest.mark.parametrize(("factor", "calls"), [(1.0, 10), (3.0, 30)])
def test_the_deadline(monkeypatch: pytest.MonkeyPatch, factor: float, calls: int) -> None:
    clock = count(0, 1.0)  # a second per call
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)
    monkeypatch.setattr(waiting, "stretch", lambda: factor)
    called: list[int] = []
    with pytest.raises(LocalError, match=r"timed out after \d+ s waiting for the end"):
        wait_until(lambda: called.append(1), 10, "the end")
    assert len(called) == calls
