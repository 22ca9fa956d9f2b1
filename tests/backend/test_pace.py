"""Expensive queries pause if processors are scarce and keys are read, and else do not."""

from __future__ import annotations

import asyncio

import pytest

from backend.queries.pace import Pace
from backend.queries.turns import Turns


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


def test_one_interruption_is_none() -> None:
    machine = Machine()
    for _ in range(100):
        machine.step(0.001, 0.001, reads=1)
    assert machine.step(0.004, 0.001, reads=1) == 0.0


def test_queries_end_with_pauses() -> None:
    turns = Turns(pace := Pace())
    pauses = 0

    def pause(clients: int) -> float:
        nonlocal pauses
        pauses += 1
        assert clients <= 2
        return 0.001

    pace.pause = pause  # type: ignore[method-assign]

    async def main() -> None:
        async def query(client: str) -> None:
            for _ in range(5):
                await turns.next(client, is_peer=False)

        await asyncio.gather(query("a"), query("b"))

    asyncio.run(main())
    assert pauses >= 9
