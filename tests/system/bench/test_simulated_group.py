"""Simulated members of a group, with a real broker and a real leader."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bench.rows.topology import VIEW, after_losses
from bench.simulated_group import SimulatedGroup
from local.errors import LocalError
from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.plugins.fixtures import Deploy, MakeTopic

_VIEWS = """[views.orders]
topic = "{}"
path = "/orders"
key = "string"
value = "json"
partitioner = "murmur2"
"""


@pytest.mark.parametrize("record_bytes", ["1", "900000"])
def test_they_get_the_topology_of_each_rebalance(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, record_bytes: str
) -> None:
    view = replace(VIEW, topic=make_topic(6))
    deployment = deploy(
        _VIEWS.format(view.topic), group_record_bytes=record_bytes, session_timeout_ms="6000"
    )
    [leader] = deployment.start()
    port = int(broker.bootstrap_servers.rpartition(":")[2])

    id_ = leader.settings["QUERYABLE_APPLICATION_ID"]

    async def known(count: int) -> None:
        """The leader itself may get the topology a moment later than the others."""
        await asyncio.to_thread(
            wait_until, lambda: len(members(leader)) == count, 10, f"{count} members", 0.05
        )

    async def run() -> None:
        async with SimulatedGroup(id_, port, view.topic) as group:
            await group.join(after_losses(5, 6, view), 60)
            await known(6)
            fetched = len(group.fetch_seconds)
            await group.leave(2, 60)
            await known(4)
            assert group.topology_bytes > 100
            assert group.failed == 0
            if record_bytes == "1":
                assert fetched >= 5
                assert len(group.fetch_seconds) >= 3
            else:
                assert (fetched, group.fetch_seconds) == (0, [])

    asyncio.run(run())


def test_a_group_without_a_leader_is_an_error(broker: Broker) -> None:
    """Nobody would compute a topology."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])

    async def run() -> None:
        async with SimulatedGroup("nobody-leads", port, VIEW.topic) as group:
            await group.join(after_losses(2, 6), 60)

    with pytest.raises(LocalError, match="a simulated member leads"):
        asyncio.run(run())


def members(backend: Backend) -> list[str]:
    return [each["id"] for each in backend.processors()["processors"]]
