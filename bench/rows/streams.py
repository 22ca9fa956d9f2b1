"""Two instances without standbys, beside two of a Kafka Streams application with a REST endpoint.

Both read the same topic. Reads go to one of the instances, which has half of the keys and forwards
the others, or to both through nginx. nginx sends ours to the owner of the key; it does not know
where the Kafka Streams application has a key, so it takes turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bench import http_client, load, records
from bench.load import Measurement, Workload
from bench.plan import FULL, Plan
from bench.report import Comparison, Row, Target
from bench.rows.factors import launch_backends
from bench.rows.launch import launch
from bench.rows.reads import Subject, cpu_of, measured_row
from bench.stack import Server, Stack
from local.errors import LocalError
from local.kafka.jars import streams_class_path
from local.kafka.java import find_java
from local.settings import REPOSITORY

_SOURCE = REPOSITORY / "bench" / "references" / "streams" / "KeyedTable.java"
_STREAMS = "Kafka Streams"
_PAIRS = {"two-direct": "streams-direct", "two-proxy": "streams-nginx"}
"""Our row ► the reference's."""
_WARM_UP = 60  # s of load, in which the JVM compiles
_SHORT_WARM_UP = 2
_START_TIMEOUT = 180.0  # s
RATE_TARGET = Target(1.5, at_least=True, of_ratio=True)  # directly, from 16 connections on


def steps(plan: Plan) -> int:
    return 2 + plan.rounds * 2 * len(_PAIRS) * len(plan.connections)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    ours_s = launch(stack, plan.sample)
    step()
    streams_s, applications = launch_applications(stack, plan.sample)
    step()
    backends = launch_backends(stack, 2, stack.table, {"QUERYABLE_STANDBY_REPLICAS": "0"})
    proxy = stack.launch_proxy(backends[0])
    nginx = _launch_nginx(stack, applications)
    subjects = {
        "two-direct": Subject("two-direct", tuple(backends)),
        "streams-direct": Subject("streams-direct", tuple(applications)),
        "two-proxy": Subject("two-proxy", (proxy, *backends), ours=True),
        "streams-nginx": Subject("streams-nginx", (nginx, *applications)),
    }
    reads = Workload(records.PATH, stack.count)
    warm_up = _WARM_UP if plan.records >= FULL.records else _SHORT_WARM_UP
    for subject in subjects.values():
        load.run(subject.servers[0].port, reads, 16, warm_up // 2)
    found: dict[tuple[str, int], list[Measurement]] = {}
    for _ in range(plan.rounds):
        for connections in plan.connections:
            for name, subject in subjects.items():
                measured = subject.measure(reads, connections, plan.seconds)
                found.setdefault((name, connections), []).append(measured)
                step()
    stack.stop(proxy, nginx, *backends, *applications)
    rows = [
        row
        for connections in plan.connections
        for name, reference in _PAIRS.items()
        for row in _pair(name, reference, connections, found)
    ]
    return [*rows, *_launch_rows(ours_s, streams_s)]


def _pair(
    name: str, reference: str, connections: int, found: dict[tuple[str, int], list[Measurement]]
) -> list[Row]:
    ours, theirs = found[name, connections], found[reference, connections]
    is_target = name == "two-direct" and connections >= 16
    beside = [
        Comparison.of(
            "rate", "reads/s", [each.load.rps for each in ours],
            _STREAMS, [each.load.rps for each in theirs], RATE_TARGET if is_target else None,
        ),
        Comparison.of("CPU", "µs", cpu_of(ours), _STREAMS, cpu_of(theirs)),
        Comparison.of(
            "memory", "MB", [each.rss_mb for each in ours],
            _STREAMS, [each.rss_mb for each in theirs],
        ),
    ]  # fmt: skip
    return [
        measured_row(name, connections, ours, beside),
        measured_row(reference, connections, theirs),
    ]


def _launch_rows(ours_s: float, streams_s: float) -> list[Row]:
    beside = Comparison.of(
        "launch of two, to all keys readable", "s", [ours_s], _STREAMS, [streams_s]
    )
    return [
        Row("two-launch", more={"seconds": ours_s}, beside=[beside]),
        Row("streams-launch", more={"seconds": streams_s}),
    ]


def launch_applications(stack: Stack, sample: int) -> tuple[float, list[Server]]:
    """Starts two instances; the seconds until both answer for all keys."""
    application = stack.new_name("streams")
    began = time.monotonic()
    both = [_launch_application(stack, application) for _ in range(2)]
    newest = range(stack.count - min(100, stack.count), stack.count)

    def is_readable() -> bool:
        """Also: each has half of the partitions, so that it forwards half of the reads."""
        try:
            if any(_partitions(each) != records.PARTITIONS // 2 for each in both):
                return False
            return not any(http_client.wrong_answers(each.port, newest) for each in both)
        except OSError:  # it does not listen yet
            return False

    stack.wait(is_readable, "Kafka Streams to have the newest records", _START_TIMEOUT)
    seconds = time.monotonic() - began
    numbers = range(0, stack.count, max(1, stack.count // sample))
    for each in both:
        if bad := http_client.wrong_answers(each.port, numbers):
            raise LocalError(f"{each.name} gave {len(bad):,} wrong answers, the first: {bad[0]}")
    return seconds, both


def _launch_application(stack: Stack, application: str) -> Server:
    name, port = stack.new_name(application), stack.free_port()
    command = [find_java(), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    # By default, an answer on a kept connection waits 40 ms, and only 200 connections are kept.
    command += ["-Dsun.net.httpserver.nodelay=true"]
    command += ["-Dsun.net.httpserver.maxIdleConnections=10000"]
    command += ["-cp", streams_class_path(), str(_SOURCE), stack.servers]
    command += [str(stack.folder_of(name)), application, str(port), records.TOPIC]
    return stack.launch_command(name, command, port)


def _partitions(application: Server) -> int:
    answer = http_client.get(application.port, "/")
    return -1 if answer is None else int(answer.body)


def _launch_nginx(stack: Stack, applications: list[Server]) -> Server:
    servers = " ".join(f"server 127.0.0.1:{each.port};" for each in applications)
    return stack.launch_nginx(
        'proxy_pass http://streams; proxy_http_version 1.1; proxy_set_header Connection "";',
        f"upstream streams {{ {servers} keepalive 256; keepalive_requests 10000000; }}",
    )
