"""Measures rebalances of large groups with a real broker. One member is a real instance, and the
leader; the others are simulated (`bench/simulated_group.py`).

A row has the time of a fetch of the topology as its p50 and p99. `more` has `rebalance_s`, from the
time when some members leave until all others have a newer topology, `leader_cpu_s`, which the
leader uses meanwhile, and `topology_bytes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from statistics import median, quantiles

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import NewPartitions

from bench.plan import FULL, Plan
from bench.proc import cpu_seconds
from bench.report import Row
from bench.rows.topology import VIEW, after_losses
from bench.simulated_group import SESSION_TIMEOUT, SimulatedGroup
from bench.stack import Server, Stack
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics

CASES = ((200, 2_000), (2_000, 12_000))
"""Instances and partitions. A broker needs a file for each partition."""
_QUICK_CASES = ((60, 200),)

_AT_ONCE = 5_000  # partitions that a request creates; the broker limits them
_TIMEOUT = 300.0  # s
_JOIN_DELAY_MS = 12_000  # for which the broker waits for more members, so that all join at once
_VIEWS = """[views.orders]
topic = "orders"
path = "/orders"
key = "string"
value = "json"
partitioner = "murmur2"
"""


def _cases(plan: Plan) -> tuple[tuple[int, int], ...]:
    return CASES if plan.records >= FULL.records else _QUICK_CASES


def steps(plan: Plan) -> int:
    return len(_cases(plan)) * (1 + plan.rounds)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    rows = []
    for instances, partitions in _cases(plan):
        folder = stack.folder_of(stack.new_name("group-broker"))
        properties = {
            "message.max.bytes": "8000000",
            "group.initial.rebalance.delay.ms": str(_JOIN_DELAY_MS),
        }
        with Broker(folder, fresh=True, heap="2g", properties=properties) as broker:
            _create(broker, partitions)
            name = stack.new_name("leader")
            leader = stack.launch_backend(
                name, name, views=_VIEWS,
                settings={
                    "QUERYABLE_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
                    "QUERYABLE_SESSION_TIMEOUT_MS": str(int(SESSION_TIMEOUT * 1000)),
                    "QUERYABLE_BROKER_TIMEOUT": "10",
                    # simulated members answer no heartbeats
                    "QUERYABLE_HEARTBEAT_INTERVAL": "60",
                },
            )  # fmt: skip
            stack.wait(lambda b=broker, n=name: _is_joining(b, n), "the leader to join", 60)
            rows.append(
                asyncio.run(_measure(broker, name, leader, instances, partitions, plan, step))
            )
            stack.stop(leader)
    return rows


async def _measure(
    broker: Broker,
    group: str,
    leader: Server,
    instances: int,
    partitions: int,
    plan: Plan,
    step: Callable[[], None],
) -> Row:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    rebalances, cpu, fetches = [], [], []
    async with SimulatedGroup(group, port, VIEW.topic) as simulated:
        await simulated.join(after_losses(instances - 1, partitions), _TIMEOUT)
        step()
        for _ in range(plan.rounds):
            await asyncio.sleep(10)  # until replicas that have warmed up are active
            before = cpu_seconds(leader.pid)
            rebalances.append(await simulated.leave(max(1, instances // 100), _TIMEOUT))
            cpu.append(cpu_seconds(leader.pid) - before)
            fetches += [1000 * seconds for seconds in simulated.fetch_seconds]
            step()
        return Row(
            f"group-{instances}-instances-{partitions}-partitions",
            p50_ms=median(fetches) if fetches else None,
            p99_ms=quantiles(fetches, n=100)[-1] if len(fetches) > 1 else None,
            more={
                "instances": instances,
                "partitions": partitions,
                "rebalance_s": median(rebalances),
                "leader_cpu_s": median(cpu),
                "topology_bytes": simulated.topology_bytes,
                "failed_fetches": simulated.failed,
            },
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
