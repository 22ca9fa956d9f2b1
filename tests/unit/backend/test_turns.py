"""Expensive steps take turns: between senders, and between clients and instances."""

from __future__ import annotations

import asyncio

import pytest

from backend.http.limits.gates import Gate
from backend.queries.pace import Pace
from backend.queries.turns import INSTANCES, Turns, next_turn, set_sender, this_client
from model.problems import Unavailable


class Work:
    """Queries that note each of their steps."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.steps: list[str] = []

    async def query(self, sender: str, steps: int) -> None:
        set_sender(self.turns, sender)
        for _ in range(steps):
            await next_turn()
            self.steps.append(sender)


def test_senders_take_turns_however_many_queries_they_have() -> None:
    work = Work()

    async def main() -> None:
        many = [work.query("many", 5) for _ in range(20)]
        await asyncio.gather(*many, work.query("few", 5))

    asyncio.run(main())
    assert work.steps.count("many") == 100
    assert [at for at, sender in enumerate(work.steps) if sender == "few"][-1] < 12


def test_instances_do_not_wait_for_clients() -> None:
    work = Work()

    async def main() -> None:
        clients = [work.query(f"client {number % 9}", 3) for number in range(90)]
        await asyncio.gather(*clients, work.query(INSTANCES, 5))

    asyncio.run(main())
    assert [at for at, sender in enumerate(work.steps) if sender == INSTANCES][-1] < 12


def test_clients_take_turns_at_other_instances_too() -> None:
    work = Work()

    async def query(client: str, steps: int) -> None:
        set_sender(work.turns, client, is_peer=True)
        for _ in range(steps):
            await next_turn()
            work.steps.append(client)

    async def main() -> None:
        await asyncio.gather(*(query("many", 5) for _ in range(20)), query("few", 5))

    asyncio.run(main())
    assert [at for at, client in enumerate(work.steps) if client == "few"][-1] < 12


def test_one_step_runs_in_each_round_of_the_event_loop() -> None:
    """So a request that arrives waits for one step, not for one of each query."""
    work = Work()
    between: list[int] = []

    async def main() -> None:
        queries = asyncio.gather(*(work.query("a", 3) for _ in range(50)))
        while not queries.done():
            before = len(work.steps)
            await asyncio.sleep(0)
            between.append(len(work.steps) - before)

    asyncio.run(main())
    assert len(work.steps) == 150
    assert max(between) == 1


def test_a_query_that_is_cancelled_loses_its_turn() -> None:
    work = Work()

    async def main() -> None:
        first = asyncio.create_task(work.query("a", 1))
        second = asyncio.create_task(work.query("a", 2))
        await asyncio.sleep(0)
        first.cancel()
        await second

    asyncio.run(main())
    assert work.steps == ["a", "a"]


def test_without_a_request_other_tasks_run() -> None:
    async def main() -> None:
        assert this_client() == INSTANCES
        await next_turn()

    asyncio.run(main())


def test_one_sender_uses_three_quarters_of_a_gate() -> None:
    gate, turns = Gate("scans", 8), Turns()
    entered: list[str] = []

    async def hold(sender: str, until: asyncio.Event) -> None:
        set_sender(turns, sender)
        with gate:
            entered.append(sender)
            await until.wait()

    async def main() -> None:
        end = asyncio.Event()
        tasks = [asyncio.create_task(hold("many", end)) for _ in range(9)]
        tasks.append(asyncio.create_task(hold("few", end)))
        await asyncio.sleep(0)
        end.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert entered == ["many"] * 6 + ["few"]
        refused = [result for result in results if result is not None]
        assert len(refused) == 3
        assert all(isinstance(each, Unavailable) for each in refused)
        for _ in range(2):  # all places are free again
            await hold("many", end)

    asyncio.run(main())


def test_instances_may_use_all_places_of_a_gate() -> None:
    gate = Gate("scans", 2)
    with gate, gate, pytest.raises(Unavailable), gate:
        pass


def test_requests_wait_for_a_place_in_their_order() -> None:
    gate, turns = Gate("scans", 2, patience=30.0), Turns()
    entered: list[int] = []

    async def query(number: int) -> None:
        set_sender(turns, "a")
        async with gate:
            entered.append(number)
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(query(number) for number in range(20)))

    asyncio.run(main())
    assert entered == list(range(20))


def test_clients_take_turns_in_waiting_for_a_place() -> None:
    gate, turns = Gate("scans", 2, patience=30.0), Turns()
    entered: list[str] = []

    async def query(client: str) -> None:
        set_sender(turns, client)
        async with gate:
            entered.append(client)
            await asyncio.sleep(0)

    async def main() -> None:
        many = [asyncio.create_task(query("many")) for _ in range(50)]
        await asyncio.sleep(0)
        others = [asyncio.create_task(query(f"few {number}")) for number in range(2)]
        await asyncio.gather(*others, *many)

    asyncio.run(main())
    assert entered.count("many") == 50
    assert [at for at, client in enumerate(entered) if client != "many"][-1] <= 6


def test_one_client_does_not_fill_the_queue_for_places() -> None:
    gate, turns = Gate("scans", 2, patience=30.0), Turns()

    async def query(client: str) -> None:
        set_sender(turns, client)
        async with gate:
            await end.wait()

    async def main() -> None:
        many = [asyncio.create_task(query("many")) for _ in range(500)]
        await asyncio.sleep(0)
        refused = [task for task in many if task.done()]
        few = [asyncio.create_task(query("few")) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in few)
        end.set()
        await asyncio.gather(*few)
        await asyncio.gather(*many, return_exceptions=True)
        assert all(isinstance(task.exception(), Unavailable) for task in refused)
        assert len(refused) == 500 - 1 - 192

    end = asyncio.Event()
    asyncio.run(main())


def test_a_request_that_is_cancelled_passes_its_place_on() -> None:
    gate, turns = Gate("scans", 1, patience=30.0), Turns()
    entered: list[str] = []

    async def query(name: str) -> None:
        set_sender(turns, "a")
        async with gate:
            entered.append(name)

    async def main() -> None:
        set_sender(turns, "a")
        with gate:
            leaves, stays = (asyncio.create_task(query(name)) for name in ("leaves", "stays"))
            await asyncio.sleep(0)
        leaves.cancel()  # at the moment at which it gets the place
        async with asyncio.timeout(5):
            await asyncio.wait([leaves, stays])

    asyncio.run(main())
    assert entered == ["stays"]


def test_a_request_that_waits_too_long_is_refused() -> None:
    gate, turns = Gate("scans", 1, patience=0.01), Turns()

    async def query() -> None:
        set_sender(turns, "a")
        async with gate:
            await end.wait()

    async def main() -> None:
        first = asyncio.create_task(query())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await asyncio.create_task(query())
        end.set()
        await first
        await asyncio.create_task(query())

    end = asyncio.Event()
    asyncio.run(main())


def test_a_new_event_loop_does_not_wait_for_a_turn_of_a_closed_one() -> None:
    class Pausing(Pace):
        def pause(self, clients: int) -> float:
            return 60.0

    turns = Turns(Pausing())

    async def ended_while_it_waits() -> None:
        set_sender(turns, "a")
        waiting = [asyncio.create_task(next_turn()) for _ in range(3)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    async def one() -> None:
        set_sender(turns, "a")
        async with asyncio.timeout(5):
            await next_turn()

    asyncio.run(ended_while_it_waits())
    asyncio.run(one())
