"""Expensive queries pause if processors are scarce and keys are read, and else do not."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from types import SimpleNamespace
from typing import cast

import pytest

from backend.queries.pace import Pace
from backend.queries.scans.partition_run import PartitionRun
from backend.queries.scans.scan_budget import ScanBudget
from backend.queries.turns import Turns, set_sender


class Machine:
    """Clocks, and readers of keys."""

    def __init__(self) -> None:
        self.now = self.cpu = 0.0
        self.reads = 0
        self.pace = Pace(lambda: self.reads, lambda: self.now, lambda: self.cpu)

    def step(self, took: float, cpu: float, reads: int = 0, clients: int = 1) -> float:
        """The pause after a step."""
        self.pace.begin()
        self.now += took
        self.cpu += cpu
        self.reads += reads
        return self.pace.pause(clients)


def test_without_others_there_is_no_pause() -> None:
    machine = Machine()
    assert [machine.step(0.001, 0.001, reads=1) for _ in range(100)] == [0.0] * 100


def test_without_readers_there_is_no_pause() -> None:
    machine = Machine()
    assert [machine.step(0.003, 0.001) for _ in range(100)] == [0.0] * 100


def test_pauses_are_as_long_as_steps_and_end_with_the_readers() -> None:
    machine = Machine()
    pauses = [machine.step(0.003, 0.001, reads=1) for _ in range(100)]
    assert pauses[-1] == pytest.approx(0.003, rel=0.01)
    assert max(machine.step(0.1, 0.001, reads=1) for _ in range(100)) <= 0.004
    assert machine.step(0.003, 0.001, clients=5) > 0.003
    assert machine.step(0.003, 0.001, clients=100) <= 0.0002
    machine.now += 0.1
    assert not any(machine.step(0.003, 0.001) for _ in range(100))


def test_short_steps_have_a_pause_together() -> None:
    """It would be shorter than the resolution of the event loop's timers."""
    machine = Machine()
    pauses = [machine.step(0.0003, 0.0001, reads=1) for _ in range(200)]
    long = [pause for pause in pauses if pause]
    assert min(long) >= 0.001
    assert sum(pauses[100:]) == pytest.approx(100 * 0.0003, rel=0.1)


def test_one_interruption_is_none() -> None:
    machine = Machine()
    for _ in range(100):
        machine.step(0.001, 0.001, reads=1)
    assert machine.step(0.004, 0.001, reads=1) == 0.0


def test_steps_are_shorter_while_keys_are_read() -> None:
    machine = Machine()
    turns = Turns(machine.pace)

    def yields(took: float) -> bool:
        """Whether a scan looks at the sockets after it has read for this time (s)."""
        set_sender(turns, "a client")
        thread_time = iter([0.0, took])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.thread_time", lambda: next(thread_time))
            run = cast(PartitionRun, SimpleNamespace(plan="scan", got=8, got_bytes=800))
            return ScanBudget().count_chunk(run)

    def both() -> list[bool]:
        return [copy_context().run(yields, took) for took in (0.0003, 0.001)]

    assert both() == [False, True]
    machine.step(0.001, 0.001, reads=1)
    assert both() == [True, True]
    machine.now += 0.2
    machine.step(0.001, 0.001)
    assert both() == [False, True]


@pytest.mark.parametrize("clients", [["a"], ["a", "b"]])
def test_queries_end_with_pauses(clients: list[str]) -> None:
    """Regression: a query that was the only one had no pauses."""
    turns = Turns(pace := Pace())
    pauses = 0

    def pause(waiting: int) -> float:
        nonlocal pauses
        pauses += 1
        assert waiting <= len(clients)
        return 0.001

    pace.pause = pause  # type: ignore[method-assign]

    async def main() -> None:
        async def query(client: str) -> None:
            for _ in range(5):
                await turns.next(client, is_peer=False)

        await asyncio.gather(*map(query, clients))

    asyncio.run(main())
    assert pauses >= 5 * len(clients) - 1
