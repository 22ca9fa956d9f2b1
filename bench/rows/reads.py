"""The cost of a point read by proxy and by a backend, compared with their lower bounds.

Each round measures all subjects, one after the other, at each number of connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter

from bench import http_client, records
from bench.http_client import Answer
from bench.load import Measurement, Workload
from bench.plan import Plan
from bench.report import Comparison, Row, Target, compare
from bench.stack import Server, Stack, run_reference
from bench.subject import Served, Subject
from local.errors import LocalError

SAMPLE = f"{records.PATH}/{records.key(0).decode()}"
_NAMES = (
    "proxy", "proxy-one-by-one", "proxy-to-static", "backend", "asgi-constant", "redis-asgi",
    "nginx-static",
)  # fmt: skip
CPU_TARGETS = {16: Target(70.0), 64: Target(34.0), 256: Target(22.0)}  # µs, by proxy
P50_TARGET = Target(1.05, of_ratio=True)  # 1 connection: coalescing must not delay a single reader
P99_TARGETS = {64: Target(5.0)}  # ms, by proxy
# compared with the row of nginx ► static nginx
LIMIT_TARGETS = {
    16: Target(1.4, of_ratio=True),
    64: Target(1.0, of_ratio=True),
    256: Target(0.9, of_ratio=True),
}
BACKEND_TARGETS = {16: Target(100.0)}  # µs


def steps(plan: Plan) -> int:
    return plan.rounds * (len(_NAMES) * len(plan.connections) + 1)


def measure(stack: Stack, plan: Plan) -> Iterator[list[Row]]:
    backend = stack.filled_backend()
    sample = sample_answer(backend.port)
    subjects = _subjects(stack, backend, sample)
    bare = Subject[dict[str, float]]("rocksdict", reference=True)
    workload = Workload(records.PATH, stack.count)
    for subject in subjects.values():
        subject.expect(sample, SAMPLE)
        subject.warm_up(workload, plan.seconds)
    for _ in range(plan.rounds):
        for connections in plan.connections:
            for subject in subjects.values():
                subject.load(workload, connections, plan.seconds)
                yield _rows(subjects, bare, plan.connections)
        asked = map(str, (stack.copy_of(backend), stack.count, plan.gets))
        bare.measure(partial(run_reference, "get", *asked))
        yield _rows(subjects, bare, plan.connections)


def launch_static(stack: Stack, sample: Answer) -> Server:
    """nginx that always sends the same answer."""
    return stack.launch_nginx(static_location(sample))


def launch_front(stack: Stack, static: Server) -> tuple[Server, Server]:
    """A plain nginx in front of another server, and that server."""
    front = stack.launch_nginx(
        'proxy_pass http://static; proxy_http_version 1.1; proxy_set_header Connection "";',
        f"upstream static {{ server 127.0.0.1:{static.port}; keepalive 256; "
        "keepalive_requests 10000000; }",
    )
    return front, static


def _subjects(stack: Stack, backend: Server, sample: Answer) -> dict[str, Served]:
    """The subjects, in the order of their measurement."""

    def launch_redis() -> tuple[Server, Server]:
        redis = stack.launch_redis()
        return stack.launch_redis_asgi(redis, SAMPLE), redis

    def reference(name: str, launch: Callable[[], Sequence[Server]]) -> Served:
        return Served(name, launch, reference=True)

    def proxy(name: str, batches: bool) -> Served:
        return Served(name, lambda: [stack.launch_proxy(backend, batches), backend], proxy=True)

    static = reference("nginx-static", lambda: [launch_static(stack, sample)])
    subjects = [
        static,
        reference("proxy-to-static", lambda: launch_front(stack, static.server)),
        reference("redis-asgi", launch_redis),
        reference("asgi-constant", lambda: [stack.launch_constant(sample)]),
        proxy("proxy", batches=True),
        proxy("proxy-one-by-one", batches=False),
        Served("backend", lambda: [backend]),
    ]
    return {each.name: each for each in sorted(subjects, key=lambda s: _NAMES.index(s.name))}


def _rows(
    subjects: dict[str, Served], bare: Subject[dict[str, float]], at: Sequence[int]
) -> list[Row]:
    rows = []
    for connections in at:
        for name, subject in subjects.items():
            beside: list[Comparison] = []
            if name == "proxy":
                beside = _proxy_comparisons(subjects, connections)
            elif name == "backend":
                beside = _backend_comparisons(subjects, bare, connections)
            rows.append(subject.loaded_row(connections, beside))
    rps, cpu_us, rss_mb = map(itemgetter, ("rps", "cpu_us", "rss_mb"))
    return [*rows, bare.row(rps=rps, cpu_us=cpu_us, rss_mb=rss_mb)]


def latency_comparisons(
    ours: Served, singly: Served, connections: int, p99_targets: Mapping[int, Target]
) -> list[Comparison]:
    """p50 and p99 of reads that are sent together, compared with reads that are sent one by one, in
    the same rounds."""
    targets = (P50_TARGET if connections == 1 else None, p99_targets.get(connections))
    found = []
    for name, get, target in zip(("p50", "p99"), (_p50, _p99), targets, strict=True):
        of_ours, of_singly = ours.of(get, connections), singly.of(get, connections)
        found += compare(name, "ms", of_ours, "one by one", of_singly, target)
    return found


def _p50(each: Measurement) -> float:
    return each.load.p50_ms


def _p99(each: Measurement) -> float:
    return each.load.p99_ms


def _proxy_comparisons(subjects: dict[str, Served], connections: int) -> list[Comparison]:
    ours, singly, static = (
        subjects[name] for name in ("proxy", "proxy-one-by-one", "proxy-to-static")
    )
    cpu = ours.cpu(connections)
    return [
        *latency_comparisons(ours, singly, connections, P99_TARGETS),
        *compare(
            "CPU", "µs", cpu, "one by one", singly.cpu(connections), CPU_TARGETS.get(connections)
        ),
        *compare(
            "CPU", "µs", cpu, "nginx ► static nginx", static.cpu(connections),
            LIMIT_TARGETS.get(connections),
        ),
    ]  # fmt: skip


def _backend_comparisons(
    subjects: dict[str, Served], bare: Subject[dict[str, float]], connections: int
) -> list[Comparison]:
    ours, constant, redis = (
        subjects[name].cpu(connections) for name in ("backend", "asgi-constant", "redis-asgi")
    )
    target = BACKEND_TARGETS.get(connections)
    return [
        *compare("CPU", "µs", ours, "constant ASGI app", constant, target),
        *compare("CPU", "µs", ours, "Redis behind ASGI", redis),
        *compare("CPU", "µs", ours, "bare rocksdict", bare.of(itemgetter("cpu_us"))),
    ]


def sample_answer(port: int, token: str = "", path: str = SAMPLE) -> Answer:
    """The answer to a read; LocalError if the status is not 200."""
    answer = http_client.get(port, path, token)
    if answer is None or answer.status != 200:
        raise LocalError(f"port {port} answers {path} with {answer}")
    return answer


def static_location(answer: Answer) -> str:
    """nginx's directives that send the same answer."""
    made_by_nginx = ("date", "server", "connection", "content-length", "content-type")
    lines = [
        f"add_header {name} {_quoted(text)};"
        for name, text in answer.headers
        if name not in made_by_nginx
    ]
    kind = next((text for name, text in answer.headers if name == "content-type"), "text/plain")
    return " ".join(
        [f"default_type {kind};", *lines, f"return 200 {_quoted(answer.body.decode())};"]
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
