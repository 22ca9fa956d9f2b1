"""Measures rebalances of large groups with a real broker. One member is a real instance, which is
the leader. The others are simulated (`bench/simulated_group.py`).

In a row, p50 and p99 are the time to fetch the topology. results.json also has `rebalance_s`, the
time from when some members leave until all others have a newer topology; `leader_cpu_s`, the
leader's CPU time meanwhile; and `topology_bytes`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from statistics import median, quantiles

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import NewPartitions

from bench.load import Measurement
from bench.plan import Plan
from bench.proc import cpu_seconds
from bench.rows.topology import VIEW, after_losses
from bench.simulated_group import SESSION_TIMEOUT_S, SimulatedGroup
from bench.stack import Server, Stack
from bench.subject import Subject
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics

CASES = ((200, 2_000), (2_000, 12_000))
"""Instances and partitions. A broker needs a file for each partition."""
_QUICK_CASES = ((60, 200),)

_AT_ONCE = 5_000  # partitions that a request creates; the broker limits them
_TIMEOUT_S = 300.0
_JOIN_DELAY_MS = 12_000  # for which the broker waits for members, so that all join at once
_VIEWS = """[views.orders]
topic = "orders"
path = "/orders"
key = "string"
value = "json"
partitioner = "murmur2"
"""


def group(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    for instances, partitions in CASES if plan.is_full else _QUICK_CASES:
        yield from _case(stack, instances, partitions)


def _case(stack: Stack, instances: int, partitions: int) -> Iterator[list[Subject]]:
    folder = stack.folder_of(stack.new_name("group-broker"))
    properties = {
        "message.max.bytes": "8000000",
        "group.initial.rebalance.delay.ms": str(_JOIN_DELAY_MS),
    }
    with Broker(folder, fresh=True, heap="2g", properties=properties) as broker:
        _create(broker, partitions)
        name = stack.new_name("leader")
        settings = {
            "QUERYABLE_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "QUERYABLE_SESSION_TIMEOUT_MS": str(int(SESSION_TIMEOUT_S * 1000)),
            # simulated members answer no heartbeats
            "ALTERED_CONSTANTS": json.dumps({"broker_timeout": 10, "heartbeat_interval": 60}),
        }
        leader = stack.launch_backend(name, name, settings, _VIEWS, "python:bench.altered_conf")
        stack.wait(lambda: _is_joining(broker, name), "the leader to join", 60)
        rebalances = _rebalances(broker, leader, instances, partitions)

        async def next_rebalance() -> Measurement:
            return await anext(rebalances)

        # between two rebalances, the simulated members wait for the report to be written
        with asyncio.Runner() as runner:
            row = f"group-{instances}-instances-{partitions}-partitions"
            yield [Subject(row, lambda _: runner.run(next_rebalance()))]
        stack.stop(leader)


async def _rebalances(
    broker: Broker, leader: Server, instances: int, partitions: int
) -> AsyncIterator[Measurement]:
    async with SimulatedGroup(leader.name, broker.port, VIEW.topic) as simulated:
        await simulated.join(after_losses(instances - 1, partitions), _TIMEOUT_S)
        while True:
            await asyncio.sleep(10)  # until replicas that have warmed up are active
            before, failed = cpu_seconds(leader.pid), simulated.failed
            seconds = await simulated.leave(max(1, instances // 100), _TIMEOUT_S)
            fetches = [1000 * seconds_taken for seconds_taken in simulated.fetch_seconds]
            times = {"p50_ms": median(fetches)} if fetches else {}
            if len(fetches) > 1:
                times["p99_ms"] = quantiles(fetches, n=100)[-1]
            values = {
                "instances": instances,
                "partitions": partitions,
                "rebalance_s": seconds,
                "leader_cpu_s": cpu_seconds(leader.pid) - before,
                "topology_bytes": simulated.topology_bytes,
                "failed_fetches": simulated.failed - failed,
            }
            yield Measurement({**values, **times})


def _create(broker: Broker, partitions: int) -> None:
    admin = quiet_admin(broker.bootstrap_servers)
    config = {"segment.index.bytes": "1024"}
    count = min(partitions, _AT_ONCE)
    create_topics(admin, [Topic(VIEW.topic, count, config)], timeout=_TIMEOUT_S)
    while count < partitions:
        count = min(partitions, count + _AT_ONCE)
        more = [NewPartitions(VIEW.topic, count)]
        admin.create_partitions(more, request_timeout=_TIMEOUT_S)[VIEW.topic].result(_TIMEOUT_S)


def _is_joining(broker: Broker, group: str) -> bool:
    admin = quiet_admin(broker.bootstrap_servers)
    try:
        description = admin.describe_consumer_groups([group])[group].result(5)
    except (KafkaException, TimeoutError):  # the first join creates the broker's topic of groups
        return False
    return bool(description.state == ConsumerGroupState.PREPARING_REBALANCING)
