"""Measures rebalances of large groups with a real broker. One member is a real instance, which is
the leader. The others are simulated (`bench/simulated_group.py`).

In a row, p50 and p99 are the time to fetch the topology. `more` has `rebalance_s`, the time from
when some members leave until all others have a newer topology; `leader_cpu_s`, the leader's CPU
time meanwhile; and `topology_bytes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from statistics import median, quantiles

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import NewPartitions

from bench.plan import FULL, Plan
from bench.proc import cpu_seconds
from bench.report import Row
from bench.rows.topology import VIEW, after_losses
from bench.simulated_group import SESSION_TIMEOUT, SimulatedGroup
from bench.stack import Server, Stack
from bench.subject import Subject
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics

CASES = ((200, 2_000), (2_000, 12_000))
"""Instances and partitions. A broker needs a file for each partition."""
_QUICK_CASES = ((60, 200),)

_AT_ONCE = 5_000  # partitions that a request creates; the broker limits them
_TIMEOUT = 300.0  # s
_JOIN_DELAY_MS = 12_000  # the broker waits so long for members, so that all join at once
_VIEWS = """[views.orders]
topic = "orders"
path = "/orders"
key = "string"
value = "json"
partitioner = "murmur2"
"""


def _cases(plan: Plan) -> tuple[tuple[int, int], ...]:
    return CASES if plan.records >= FULL.records else _QUICK_CASES


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance: its time, the leader's CPU time for it, the seconds in which each other member
    fetched the topology, the number of failed fetches, and the bytes of the topology."""

    seconds: float
    cpu_s: float
    fetches: list[float]
    failed: int
    topology_bytes: int


def steps(plan: Plan) -> int:
    return len(_cases(plan)) * plan.rounds


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    rows: list[Row] = []
    for instances, partitions in _cases(plan):
        folder = stack.folder_of(stack.new_name("group-broker"))
        properties = {
            "message.max.bytes": "8000000",
            "group.initial.rebalance.delay.ms": str(_JOIN_DELAY_MS),
        }
        ours = Subject[Rebalance](f"group-{instances}-instances-{partitions}-partitions")
        with Broker(folder, fresh=True, heap="2g", properties=properties) as broker:
            _create(broker, partitions)
            name = stack.new_name("leader")
            leader = stack.launch_backend(
                name, name, views=_VIEWS,
                settings={
                    "QUERYABLE_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
                    "QUERYABLE_SESSION_TIMEOUT_MS": str(int(SESSION_TIMEOUT * 1000)),
                },
                # simulated members answer no heartbeats
                constants={"broker_timeout": 10, "heartbeat_interval": 60},
            )  # fmt: skip
            stack.wait(lambda b=broker, n=name: _is_joining(b, n), "the leader to join", 60)
            rebalances = _rebalances(broker, leader, instances, partitions, plan.rounds)

            async def next_rebalance(them: AsyncIterator[Rebalance] = rebalances) -> Rebalance:
                return await anext(them)

            # between two rebalances, the simulated members wait for the report to be written
            with asyncio.Runner() as runner:
                for _ in range(plan.rounds):
                    ours.measure(lambda: runner.run(next_rebalance()))
                    yield [*rows, _row(ours, instances, partitions)]
            stack.stop(leader)
        rows.append(_row(ours, instances, partitions))


async def _rebalances(
    broker: Broker, leader: Server, instances: int, partitions: int, rounds: int
) -> AsyncIterator[Rebalance]:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    async with SimulatedGroup(leader.name, port, VIEW.topic) as simulated:
        await simulated.join(after_losses(instances - 1, partitions), _TIMEOUT)
        for _ in range(rounds):
            await asyncio.sleep(10)  # until replicas that have warmed up are active
            before, failed = cpu_seconds(leader.pid), simulated.failed
            seconds = await simulated.leave(max(1, instances // 100), _TIMEOUT)
            yield Rebalance(
                seconds,
                cpu_seconds(leader.pid) - before,
                list(simulated.fetch_seconds),
                simulated.failed - failed,
                simulated.topology_bytes,
            )


def _row(ours: Subject[Rebalance], instances: int, partitions: int) -> Row:
    fetches = [1000 * seconds for each in ours.rounds() for seconds in each.fetches]
    row = ours.row(
        more={
            "instances": lambda _: instances,
            "partitions": lambda _: partitions,
            "rebalance_s": lambda each: each.seconds,
            "leader_cpu_s": lambda each: each.cpu_s,
            "topology_bytes": lambda each: each.topology_bytes,
            "failed_fetches": lambda _: sum(each.failed for each in ours.rounds()),
        },
    )
    return replace(
        row,
        p50_ms=median(fetches) if fetches else None,
        p99_ms=quantiles(fetches, n=100)[-1] if len(fetches) > 1 else None,
    )


def _create(broker: Broker, partitions: int) -> None:
    admin = quiet_admin(broker.bootstrap_servers)
    config = {"segment.index.bytes": "1024"}
    count = min(partitions, _AT_ONCE)
    create_topics(admin, [Topic(VIEW.topic, count, config)], timeout=_TIMEOUT)
    while count < partitions:
        count = min(partitions, count + _AT_ONCE)
        more = [NewPartitions(VIEW.topic, count)]
        admin.create_partitions(more, request_timeout=_TIMEOUT)[VIEW.topic].result(_TIMEOUT)


def _is_joining(broker: Broker, group: str) -> bool:
    admin = quiet_admin(broker.bootstrap_servers)
    try:
        found = admin.describe_consumer_groups([group])[group].result(5)
    except (
        KafkaException,
        TimeoutError,
    ):  # the broker creates the topic of groups at the first join
        return False
    return bool(found.state == ConsumerGroupState.PREPARING_REBALANCING)
