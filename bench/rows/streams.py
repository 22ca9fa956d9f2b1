"""Two instances without standbys, next to two of a Kafka Streams application with a REST endpoint.

Both read the same topic. Reads go to one of the instances, which has half of the keys and forwards
the others, or to both through nginx. nginx sends ours to the owner of the key; it does not know
where the Kafka Streams application has a key, so it takes turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench import http_client, records
from bench.load import Measurement, Workload
from bench.plan import FULL, Plan
from bench.report import Row, Target, compare
from bench.rows.factors import launch_backends
from bench.rows.launch import check, launch
from bench.stack import Server, Stack
from bench.subject import Served, Subject
from local.kafka.jars import streams_class_path
from local.kafka.java import find_java
from local.settings import REPOSITORY

_SOURCE = REPOSITORY / "bench" / "references" / "streams" / "KeyedTable.java"
_STREAMS = "Kafka Streams"
_WARM_UP = 60  # s of load, in which the JVM compiles
_SHORT_WARM_UP = 2
_START_TIMEOUT = 180.0  # s
RATE_TARGET = Target(1.5, at_least=True, of_ratio=True)  # directly, from 16 connections on


@dataclass(frozen=True, slots=True)
class Launch:
    """Two instances of the application, and the seconds until both answered for all keys."""

    seconds: float
    applications: list[Server]


def steps(plan: Plan) -> int:
    return 2 + plan.rounds * 4 * len(plan.connections)


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    launched = Subject[float]("two-launch")
    theirs = Subject[Launch]("streams-launch", reference=True)
    launched.measure(lambda: launch(stack, plan.sample, launched.note))
    yield _launch_rows(launched, theirs)
    theirs.measure(lambda: launch_applications(stack, plan.sample, theirs.note))
    yield _launch_rows(launched, theirs)
    backends = launch_backends(stack, 2, stack.table, {"QUERYABLE_STANDBY_REPLICAS": "0"})
    proxy = stack.launch_proxy(backends[0])

    def reference(name: str, launch: Callable[[], list[Server]]) -> Served:
        return Served(name, launch, reference=True)

    direct, by_proxy = pairs = (
        (
            Served("two-direct", lambda: backends),
            reference("streams-direct", lambda: theirs.last.applications),
        ),
        (
            Served("two-proxy", lambda: [proxy, *backends], proxy=True),
            reference("streams-nginx", lambda: _launch_nginx(stack, theirs.last.applications)),
        ),
    )
    subjects = [*direct, *by_proxy]
    reads = Workload(records.PATH, stack.count)
    warm_up = _WARM_UP if plan.records >= FULL.records else _SHORT_WARM_UP
    for subject in subjects:
        subject.warm_up(reads, warm_up // 2)
    for _ in range(plan.rounds):
        for connections in plan.connections:
            for subject in subjects:
                subject.load(reads, connections, plan.seconds)
                rows = [row for c in plan.connections for pair in pairs for row in _rows(*pair, c)]
                yield [*rows, *_launch_rows(launched, theirs)]


def _rows(ours: Served, theirs: Served, connections: int) -> list[Row]:
    is_target = ours.name == "two-direct" and connections >= 16
    beside = []
    for what, unit, get, target in _COLUMNS:
        both = ours.of(get, connections), _STREAMS, theirs.of(get, connections)
        beside += compare(what, unit, *both, target if is_target else None)
    return [ours.loaded_row(connections, beside), theirs.loaded_row(connections)]


_COLUMNS: tuple[tuple[str, str, Callable[[Measurement], float], Target | None], ...] = (
    ("rate", "reads/s", lambda each: each.load.rps, RATE_TARGET),
    ("CPU", "µs", lambda each: each.cpu_us, None),
    ("memory", "MB", lambda each: each.rss_mb, None),
)


def _launch_rows(ours: Subject[float], theirs: Subject[Launch]) -> list[Row]:
    what = "launch of two, to all keys readable"
    beside = compare(what, "s", ours.of(float), _STREAMS, theirs.of(_seconds))
    return [
        ours.row(more={"seconds": float}, beside=beside),
        theirs.row(more={"seconds": _seconds}),
    ]


def _seconds(each: Launch) -> float:
    return each.seconds


def launch_applications(stack: Stack, sample: int, note: Callable[[str], None]) -> Launch:
    """Starts two instances. `note` gets a description of wrong answers."""
    application = stack.new_name("streams")
    began = time.monotonic()
    both = [_launch_application(stack, application) for _ in range(2)]
    newest = range(stack.count - min(100, stack.count), stack.count)

    def is_readable() -> bool:
        """Whether both answer with the newest records. Each must also have half of the partitions,
        so that it forwards half of the reads."""
        try:
            if any(_partitions(each) != records.PARTITIONS // 2 for each in both):
                return False
            return not any(http_client.wrong_answers(each.port, newest) for each in both)
        except OSError:  # it does not listen yet
            return False

    try:
        what = "Kafka Streams to have the newest records"
        stack.wait(is_readable, what, _START_TIMEOUT, reference=True)
        seconds = time.monotonic() - began
        for each in both:
            check(each, range(0, stack.count, max(1, stack.count // sample)), note)
    except BaseException:
        stack.stop(*both)
        raise
    return Launch(seconds, both)


def _launch_application(stack: Stack, application: str) -> Server:
    name, port = stack.new_name(application), stack.free_port()
    command = [find_java(), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    # By default, an answer on a kept connection waits 40 ms, and only 200 connections are kept.
    command += ["-Dsun.net.httpserver.nodelay=true"]
    command += ["-Dsun.net.httpserver.maxIdleConnections=10000"]
    command += ["-cp", streams_class_path(), str(_SOURCE), stack.servers]
    command += [str(stack.folder_of(name)), application, str(port), records.TOPIC]
    return stack.launch_command(name, command, port, reference=True)


def _partitions(application: Server) -> int:
    answer = http_client.get(application.port, "/")
    return -1 if answer is None else int(answer.body)


def _launch_nginx(stack: Stack, applications: list[Server]) -> list[Server]:
    """Starts nginx in front of the applications; returns nginx and the applications."""
    servers = " ".join(f"server 127.0.0.1:{each.port};" for each in applications)
    nginx = stack.launch_nginx(
        'proxy_pass http://streams; proxy_http_version 1.1; proxy_set_header Connection "";',
        f"upstream streams {{ {servers} keepalive 256; keepalive_requests 10000000; }}",
    )
    return [nginx, *applications]
