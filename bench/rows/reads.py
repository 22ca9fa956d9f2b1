"""The cost of a point read by proxy and by a backend, compared with their lower bounds.

Each round measures all subjects, one after the other, at each number of connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from bench import batches, http_client, load, records
from bench.http_client import Answer
from bench.load import Measurement, Workload
from bench.plan import Plan
from bench.report import Comparison, Row, Target
from bench.stack import Server, Stack, run_reference
from local.errors import LocalError

SAMPLE = f"{records.PATH}/{records.key(0).decode()}"
_NAMES = (
    "proxy", "proxy-one-by-one", "proxy-to-static", "backend", "asgi-constant", "redis-asgi",
    "nginx-static",
)  # fmt: skip
CPU_TARGETS = {16: Target(70.0), 64: Target(34.0), 256: Target(22.0)}  # µs, by proxy
P50_TARGET = Target(1.05, of_ratio=True)  # 1 connection: coalescing must not delay a single reader
P99_TARGETS = {64: Target(5.0)}  # ms, by proxy
# beside nginx ► static nginx
LIMIT_TARGETS = {
    16: Target(1.4, of_ratio=True),
    64: Target(1.0, of_ratio=True),
    256: Target(0.9, of_ratio=True),
}
BACKEND_TARGETS = {16: Target(100.0)}  # µs

Rounds = dict[tuple[str, int], list[Measurement]]
"""By name and connections, one Measurement per round."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The servers of a row. The first one gets the requests; the CPU time of all counts."""

    name: str
    servers: tuple[Server, ...]
    ours: bool = False  # whether the first server is our nginx
    token: str = ""  # for the metrics of our nginx

    def measure(self, workload: Workload, connections: int, seconds: int) -> Measurement:
        leaders, port = tuple(server.pid for server in self.servers), self.servers[0].port
        before = batches.read_counts(port, self.token) if self.ours else None
        try:
            measured = load.measure(leaders, port, workload, connections, seconds)
        except LocalError as error:
            raise LocalError(f"{self.name}, {connections} connections: {error}") from error
        if before is None:
            return measured
        after = batches.read_counts(port, self.token)
        batch = batches.reads_per_request(measured.load.requests, before, after)
        return replace(measured, batch=batch)


def steps(plan: Plan) -> int:
    return plan.rounds * (len(_NAMES) * len(plan.connections) + 1)


def measure(stack: Stack, plan: Plan, step: Callable[[], None]) -> list[Row]:
    backend = stack.filled_backend()
    subjects = _subjects(stack, backend)
    workload = Workload(records.PATH, stack.count)
    for subject in subjects:  # warms up caches and interpreters
        load.run(subject.servers[0].port, workload, 16, plan.seconds)
    found: Rounds = {(name, c): [] for name in _NAMES for c in plan.connections}
    bare: list[dict[str, float]] = []
    for _ in range(plan.rounds):
        for connections in plan.connections:
            for subject in subjects:
                measured = subject.measure(workload, connections, plan.seconds)
                found[subject.name, connections].append(measured)
                step()
        copy = str(stack.copy_of(backend))
        bare.append(run_reference("get", copy, str(stack.count), str(plan.gets)))
        step()
    started = {server for subject in subjects for server in subject.servers} - {backend}
    stack.stop(*started)
    return [*_rows(found, bare, plan.connections), _bare_row(bare)]


def launch_static(stack: Stack, sample: Answer) -> tuple[Server, Server]:
    """A plain nginx in front of another one that always sends the same answer."""
    static = stack.launch_nginx(static_location(sample))
    front = stack.launch_nginx(
        'proxy_pass http://static; proxy_http_version 1.1; proxy_set_header Connection "";',
        f"upstream static {{ server 127.0.0.1:{static.port}; keepalive 256; "
        "keepalive_requests 10000000; }",
    )
    return front, static


def _subjects(stack: Stack, backend: Server) -> list[Subject]:
    sample = sample_answer(backend.port)
    front, static = launch_static(stack, sample)
    redis = stack.launch_redis()
    servers = {
        "proxy": (stack.launch_proxy(backend), backend),
        "proxy-one-by-one": (stack.launch_proxy(backend, batches=False), backend),
        "proxy-to-static": (front, static),
        "backend": (backend,),
        "asgi-constant": (stack.launch_constant(sample),),
        "redis-asgi": (stack.launch_redis_asgi(redis, SAMPLE), redis),
        "nginx-static": (static,),
    }
    for name, (front_server, *_) in servers.items():
        if sample_answer(front_server.port).body != sample.body:
            raise LocalError(f"{name} and the backend give different answers.")
    return [
        Subject(name, servers[name], ours=name in ("proxy", "proxy-one-by-one")) for name in _NAMES
    ]


def _rows(found: Rounds, bare: list[dict[str, float]], at: Sequence[int]) -> list[Row]:
    rows = []
    for connections in at:
        for name in _NAMES:
            rounds = found[name, connections]
            beside: list[Comparison] = []
            if name == "proxy":
                beside = _proxy_comparisons(found, connections)
            elif name == "backend":
                beside = _backend_comparisons(found, bare, connections)
            rows.append(measured_row(name, connections, rounds, beside))
    return rows


def latency_comparisons(
    ours: Sequence[Measurement],
    singly: Sequence[Measurement],
    connections: int,
    p99_targets: Mapping[int, Target],
) -> list[Comparison]:
    """p50 and p99 of reads that travel together, beside those one by one in the same rounds."""
    return [
        Comparison.of(
            "p50", "ms", [each.load.p50_ms for each in ours],
            "one by one", [each.load.p50_ms for each in singly],
            P50_TARGET if connections == 1 else None,
        ),
        Comparison.of(
            "p99", "ms", [each.load.p99_ms for each in ours],
            "one by one", [each.load.p99_ms for each in singly],
            p99_targets.get(connections),
        ),
    ]  # fmt: skip


def _proxy_comparisons(found: Rounds, connections: int) -> list[Comparison]:
    ours, singly = found["proxy", connections], found["proxy-one-by-one", connections]
    static = found["proxy-to-static", connections]
    return [
        *latency_comparisons(ours, singly, connections, P99_TARGETS),
        Comparison.of(
            "CPU", "µs", cpu_of(ours), "one by one", cpu_of(singly), CPU_TARGETS.get(connections)
        ),
        Comparison.of(
            "CPU", "µs", cpu_of(ours), "nginx ► static nginx", cpu_of(static),
            LIMIT_TARGETS.get(connections),
        ),
    ]  # fmt: skip


def _backend_comparisons(
    found: Rounds, bare: list[dict[str, float]], connections: int
) -> list[Comparison]:
    ours = cpu_of(found["backend", connections])
    constant = cpu_of(found["asgi-constant", connections])
    redis = cpu_of(found["redis-asgi", connections])
    return [
        Comparison.of(
            "CPU", "µs", ours, "constant ASGI app", constant, BACKEND_TARGETS.get(connections)
        ),
        Comparison.of("CPU", "µs", ours, "Redis behind ASGI", redis),
        Comparison.of("CPU", "µs", ours, "bare rocksdict", [each["cpu_us"] for each in bare]),
    ]


def _bare_row(bare: list[dict[str, float]]) -> Row:
    return Row(
        "rocksdict",
        rps=median(each["rps"] for each in bare),
        cpu_us=median(each["cpu_us"] for each in bare),
        rss_mb=median(each["rss_mb"] for each in bare),
    )


def cpu_of(rounds: Sequence[Measurement]) -> list[float]:
    return [each.cpu_us for each in rounds]


def measured_row(
    name: str,
    connections: int,
    rounds: Sequence[Measurement],
    beside: list[Comparison] | None = None,
    more: dict[str, float] | None = None,
) -> Row:
    """A row with the medians of the rounds."""
    batch = median(each.batch for each in rounds)
    return Row(
        name,
        connections,
        rps=median(each.load.rps for each in rounds),
        p50_ms=median(each.load.p50_ms for each in rounds),
        p99_ms=median(each.load.p99_ms for each in rounds),
        p99_9_ms=median(each.load.p99_9_ms for each in rounds),
        cpu_us=median(cpu_of(rounds)),
        rss_mb=median(each.rss_mb for each in rounds),
        more={**(more or {}), **({"batch": batch} if batch else {})},
        beside=beside or [],
    )


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
