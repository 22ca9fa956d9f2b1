"""Heartbeats of instances that share partitions, in virtual time: who sends them, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, cast
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.cluster.heartbeats import _GRACE, Heartbeats
from backend.cluster.liveness import MISSED_BEFORE_DEAD
from backend.wire.answer import Answer
from model.problems import Unavailable
from model.topology import Epoch, Member, PlacedView, Topology
from tests.support.examples import examples
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import ME, OTHER, context
from tests.support.in_process.virtual_time import run_in_virtual_time

INTERVAL = 0.25
PERIOD = 2 * INTERVAL
GRACE = _GRACE * INTERVAL
LATENCY = 0.001  # s
THIRD = Member("b3", "127.0.0.1", 8083)


def sharing(*members: Member) -> Topology:
    """All of these have the only partition."""
    placed = PlacedView(
        ORDERS.description(), ORDERS.hash, (0,), standbys=(tuple(range(1, len(members))),)
    )
    return Topology(Epoch(5, len(members)), members, {"orders": placed})


class Network:
    """Instances with heartbeats. `sent`: time, sender and receiver of each; `hung`: instances that
    neither answer nor send. `late`: s by which a timeout is noticed too late."""

    def __init__(self) -> None:
        self.instances: dict[str, Any] = {}
        self.heartbeats: dict[str, Heartbeats] = {}
        self.sent: list[tuple[float, str, str]] = []
        self.hung: set[str] = set()
        self.late = 0.0

    def add(self, member: Member) -> None:
        group = context(instance_id=member.id, port=member.port, heartbeat_interval=INTERVAL).group
        self.instances[member.id] = group
        self.heartbeats[member.id] = Heartbeats(group, cast(Any, _Posts(self, member.id)), INTERVAL)
        self.heartbeats[member.id].start()

    def apply(self, topology: Topology) -> None:
        for instance in self.instances.values():
            instance.apply_topology(topology)

    def state(self, of: str, by: str) -> str:
        return cast(str, self.instances[by].peers.states()[of])

    def since(self, time: float) -> list[tuple[float, str, str]]:
        return [each for each in self.sent if each[0] >= time]


class _Posts:
    def __init__(self, network: Network, sender: str) -> None:
        self._network = network
        self._sender = sender

    async def post(self, member: Member, _: bytes, body: bytes, timeout: float) -> Answer:
        network, now = self._network, asyncio.get_running_loop().time()
        if self._sender not in network.hung:
            network.sent.append((now, self._sender, member.id))
            await asyncio.sleep(LATENCY)
            if member.id not in network.hung:
                answer = network.heartbeats[member.id].answer(body)
                await asyncio.sleep(LATENCY)
                return answer
        await asyncio.sleep(now + timeout + network.late - asyncio.get_running_loop().time())
        raise Unavailable("owner-unreachable", "no answer")

    async def close(self) -> None:
        pass


@asynccontextmanager
async def running(*members: Member, apart: float = 0.0) -> AsyncIterator[Network]:
    """Instances with a common topology. Each learns of it `apart` s after the one before."""
    network = Network()
    topology = sharing(*members)
    try:
        for member in members:
            network.add(member)
        for instance in network.instances.values():
            instance.apply_topology(topology)
            await asyncio.sleep(apart)
        yield network
    finally:
        for each in network.heartbeats.values():
            await each.stop()


@given(apart=st.floats(0.0, 2 * PERIOD))
@settings(max_examples=examples(40))
def test_two_instances_send_them_in_turn(apart: float) -> None:
    """Whenever they begin, also if both have sent the first one at the same time."""

    async def run() -> None:
        async with running(ME, OTHER, apart=apart) as network:
            await asyncio.sleep(4 * PERIOD)
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(20 * PERIOD)
            found = network.since(began)
            assert 19 <= len(found) <= 21, "one of both in each period"
            senders = [sender for _, sender, _ in found]
            assert all(a != b for a, b in pairwise(senders))
            assert network.state("b2", by="b1") == network.state("b1", by="b2") == "running"

    run_in_virtual_time(run())


@given(after=st.floats(4 * PERIOD, 6 * PERIOD))
@settings(max_examples=examples(40))
def test_a_hung_instance_is_noticed_whoever_has_the_next_turn(after: float) -> None:
    async def run() -> None:
        async with running(ME, OTHER) as network:
            await asyncio.sleep(after)
            network.hung = {"b2"}
            hung_at = asyncio.get_running_loop().time()
            latest = PERIOD + GRACE + MISSED_BEFORE_DEAD * INTERVAL
            while network.state("b2", by="b1") != "dead":
                await asyncio.sleep(INTERVAL / 50)
                assert asyncio.get_running_loop().time() - hung_at < latest
            times = [at for at, _, _ in network.since(hung_at)][-MISSED_BEFORE_DEAD:]
            gaps = [b - a for a, b in pairwise(times)]
            assert all(abs(gap - INTERVAL) < 1e-6 for gap in gaps), "one in each interval"
            network.hung = set()
            await asyncio.sleep(PERIOD)
            assert network.state("b2", by="b1") != "dead"
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(10 * PERIOD)
            assert 9 <= len(network.since(began)) <= 12, "in turn again"

    run_in_virtual_time(run())


def test_one_that_does_not_send_gets_them_all() -> None:
    """Of another one, it would not be known whether it can send or can be reached."""

    async def run() -> None:
        async with running(ME, OTHER) as network:
            await asyncio.sleep(4 * PERIOD)
            await network.heartbeats["b2"].stop()  # it still answers
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(10 * (PERIOD + GRACE))
            found = network.since(began)
            assert {sender for _, sender, _ in found} == {"b1"}
            assert 9 <= len(found) <= 11

    run_in_virtual_time(run())


@pytest.mark.parametrize("late", [0.0, 0.1 * INTERVAL, 0.5 * INTERVAL, 3 * INTERVAL])
def test_heartbeats_go_on_if_a_timeout_is_noticed_too_late(late: float) -> None:
    """Regression: the next turn came before the task had ended, and then there was none."""

    async def run() -> None:
        async with running(ME, OTHER) as network:
            await asyncio.sleep(3 * PERIOD)
            network.hung, network.late = {"b1", "b2"}, late  # the network between them is cut
            await asyncio.sleep(40 * INTERVAL)
            assert network.state("b2", by="b1") == network.state("b1", by="b2") == "dead"
            network.hung = set()
            await asyncio.sleep(10 * INTERVAL)
            assert network.state("b2", by="b1") == network.state("b1", by="b2") == "running"

    run_in_virtual_time(run())


def test_heartbeats_go_on_after_an_unexpected_error(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with running(ME, OTHER) as network:
            await network.heartbeats["b2"].stop()  # else those that it sends would count
            await asyncio.sleep(3 * PERIOD)
            network.heartbeats["b2"].answer = Mock(side_effect=ZeroDivisionError)  # type: ignore[method-assign]
            await asyncio.sleep(3 * PERIOD)
            assert "ZeroDivisionError" in caplog.text
            del network.heartbeats["b2"].answer
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(3 * PERIOD)
            assert "b1" in {sender for _, sender, _ in network.since(began)}

    run_in_virtual_time(run())


def test_each_pair_of_many_has_one_in_each_period() -> None:
    members = [Member(f"b{n}", "127.0.0.1", 8080 + n) for n in range(1, 9)]

    async def run() -> None:
        async with running(*members) as network:
            await asyncio.sleep(4 * PERIOD)
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(10 * PERIOD)
            pairs = [frozenset(each[1:]) for each in network.since(began)]
            assert len(set(pairs)) == 8 * 7 / 2
            assert all(9 <= pairs.count(pair) <= 12 for pair in set(pairs))

    run_in_virtual_time(run())


def test_neighbours_change_with_the_topology() -> None:
    async def run() -> None:
        async with running(ME, OTHER) as network:
            network.add(THIRD)
            await asyncio.sleep(3 * PERIOD)
            assert all(receiver != "b3" for _, _, receiver in network.sent)
            began = asyncio.get_running_loop().time()
            network.apply(sharing(ME, OTHER, THIRD))
            await asyncio.sleep(LATENCY)
            assert ("b1", "b3") in [each[1:] for each in network.since(began)], "at once"
            await asyncio.sleep(2 * PERIOD)
            network.apply(sharing(ME, THIRD))
            began = asyncio.get_running_loop().time() + 2 * LATENCY
            await asyncio.sleep(4 * PERIOD)
            assert {frozenset(each[1:]) for each in network.since(began)} == {
                frozenset({"b1", "b3"})
            }
            assert network.instances["b1"].peers.states().keys() == {"b3"}

    run_in_virtual_time(run())


@pytest.mark.parametrize("is_in_flight", [False, True])
def test_one_that_starts_again_at_another_address_gets_one_soon(is_in_flight: bool) -> None:
    """Regression: it got none if one to the old address was in flight."""

    async def run() -> None:
        async with running(ME, OTHER) as network:
            await network.heartbeats["b2"].stop()  # else those that it sends would count
            await asyncio.sleep(3 * PERIOD)
            if is_in_flight:
                network.hung = {"b2"}
                while not network.heartbeats["b1"]._in_flight:
                    await asyncio.sleep(LATENCY / 2)
            moved = Member("b2", "127.0.0.1", 9082)
            network.instances["b1"].apply_topology(sharing(ME, moved))
            await asyncio.sleep(LATENCY)
            network.hung = set()
            changed_at = asyncio.get_running_loop().time()
            await asyncio.sleep(4 * PERIOD)
            found = network.since(changed_at - 2 * LATENCY)
            assert found[0][0] <= changed_at + INTERVAL
            assert 4 <= len(found) <= 6
            assert network.state("b2", by="b1") == "running"

    run_in_virtual_time(run())
