"""Two instances without standbys, with half of the keys each, compared with two instances of a
Kafka Streams application with a REST endpoint that reads the same topic: under load (`forwarded`)
and without requests (`idle`).

Reads go to one of the instances, which has half of the keys and forwards the other reads, or to
both through nginx. nginx sends a read of ours to the owner of the key. It does not know where the
Kafka Streams application has a key, so it asks its instances in turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from statistics import median

import urllib3

from bench import records
from bench.load import Measurement, Workload
from bench.plan import Plan
from bench.proc import cpu_seconds, pss_mb, threads
from bench.references import servers
from bench.report import Target
from bench.stack import Server, Stack
from bench.subject import Baseline, LoadTest, Subject

_JVM_WARM_UP_S, _SHORT_WARM_UP_S = 30, 1  # of load before each row, in which the JVM compiles
_START_TIMEOUT_S = 180.0
_READERS = 4  # that read records back, each with a connection
_IDLE_S, _SHORT_IDLE_S = 20, 2  # of a round
_SETTLE_S = 60  # before the first idle round, in which the JVM still compiles


def forwarded(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """`forwarded` sends several reads together to the other instance. In `forwarded-one-by-one` the
    same reads have an id for the logs, so it sends each by itself."""
    backends = stack.launch_backends(2, stack.table, {"QUERYABLE_STANDBY_REPLICAS": "0"})
    proxy = stack.launch_proxy(backends[0])
    reads = Workload(stack.table)
    warm_up = _JVM_WARM_UP_S if plan.is_full else _SHORT_WARM_UP_S
    load = partial(LoadTest, plan=plan, warm_up=warm_up)
    direct = load("streams-direct", lambda: applications(stack), reads, reference=True)

    def front() -> Sequence[Server]:
        return servers.front(stack, [direct.server, *direct.servers[1:]])

    at_least = {n: Target(1.5, at_least=True, is_ratio=True) for n in plan.connections if n >= 16}
    baselines = [
        Baseline("p50_ms", "forwarded-one-by-one", {1: Target(1.05, is_ratio=True)}),
        Baseline("p99_ms", "forwarded-one-by-one", {256: Target(50.0)}),
        Baseline("cpu_us", "forwarded-one-by-one"),
        *_baselines(direct.name, at_least),
    ]
    by_proxy = partial(load, "two-proxy", is_proxy=True, baselines=_baselines("streams-nginx"))
    yield [
        load("forwarded", lambda: backends, reads, baselines=baselines),
        load("forwarded-one-by-one", lambda: backends, replace(reads, traced=True)),
        direct,
        by_proxy(lambda: [proxy, *backends], reads),
        load("streams-nginx", front, reads, reference=True),
    ]


def _baselines(reference: str, at_least: dict[int, Target] | None = None) -> list[Baseline]:
    cost = [Baseline(quantity, reference) for quantity in ("cpu_us", "rss_mb")]
    return [Baseline("rps", reference, at_least), *cost]


def idle(stack: Stack, plan: Plan) -> Iterator[list[Subject]]:
    """Two instances and nginx without reads and records: CPU of all, and the median of the memory
    and of the threads of an instance."""
    backends = stack.launch_backends(2, stack.table)
    proxy = stack.launch_proxy(backends[0])
    stack.wait_idle(proxy)
    seconds, settle = (_IDLE_S, _SETTLE_S) if plan.is_full else (_SHORT_IDLE_S, _SHORT_IDLE_S)
    launched: list[Server] = []

    def use(instances: Sequence[Server], *other_servers: Server) -> Measurement:
        pids = [server.pid for server in (*instances, *other_servers)]
        before = cpu_seconds(*pids)
        time.sleep(seconds)
        percent = (cpu_seconds(*pids) - before) / seconds * 100
        stack.check(*instances, *other_servers)
        mb, count = (median(get(server.pid) for server in instances) for get in (pss_mb, threads))
        return Measurement({"percent": percent, "rss_mb": mb, "threads": count})

    streams = Subject("idle-streams", lambda _: use(launched), reference=True)
    streams.attempt(lambda: launched.extend(applications(stack)))
    for server in launched:
        streams.attempt(partial(stack.wait_idle, server))
    time.sleep(settle)
    baselines = [
        Baseline("percent", streams.name, Target(1.0)),
        Baseline("rss_mb", streams.name, Target(80.0)),
    ]
    yield [Subject("idle", lambda _: use(backends, proxy), baselines=baselines), streams]


def applications(stack: Stack) -> list[Server]:
    """Starts two instances of the Kafka Streams application. Waits until both answer with the
    newest records and each has half of the partitions, so that it forwards half of the reads."""
    name = stack.new_name("streams")
    topic = stack.table.topic
    pair = [
        servers.streams(stack, stack.new_name(name), "KeyedTable", name, topic) for _ in range(2)
    ]
    newest = range(stack.table.count - min(100, stack.table.count), stack.table.count)

    def is_readable() -> bool:
        if any(server.get("/").body != b"%d" % (records.PARTITIONS // 2) for server in pair):
            return False
        return not any(wrong_reads(server, newest) for server in pair)

    try:
        what = "Kafka Streams to have the newest records"
        stack.wait(is_readable, what, _START_TIMEOUT_S, reference=True)
    except BaseException:
        stack.stop(*pair)
        raise
    return pair


def wrong_reads(server: Server, numbers: Sequence[int]) -> list[str]:
    """Reads these records; describes the answers that are not a 200 with the record as written."""
    table = records.customers(0)
    with (
        urllib3.connection_from_url(server.url, maxsize=_READERS, retries=False) as pool,
        ThreadPoolExecutor(_READERS) as threads,
    ):

        def wrong(number: int) -> str:
            name = records.key(number).decode()
            try:
                answer = pool.request("GET", f"{table.path}/{name}", timeout=10)
            except urllib3.exceptions.HTTPError as error:
                return f"{name}: {error!r}"
            if (answer.status, answer.data) == (200, records.document(table, number)):
                return ""
            return f"{name}: {answer.status} {answer.data[:200]!r}"

        wrong_answers = [text for text in threads.map(wrong, numbers) if text]
    if not wrong_answers:
        return []
    return [
        f"of {len(numbers):,} reads of {server.name} after it was ready, {len(wrong_answers):,} "
        f"were answered wrongly, the first: {wrong_answers[0]}"
    ]
