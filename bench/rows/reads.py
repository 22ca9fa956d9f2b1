"""What a point read costs: a backend alone, beside the bare HTTP server and bare RocksDB."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from bench import asking, load, records
from bench.load import Served
from bench.plan import Plan
from bench.proc import peak_rss_mb
from bench.report import Comparison, Row, Target
from bench.stack import Stack, run_reference

TARGET_CONNECTIONS = 16
CPU_TARGET = Target(100.0)  # µs


def steps(plan: Plan) -> int:
    return plan.rounds * (2 * len(plan.connections) + 1)


def measure(
    stack: Stack, plan: Plan, step: Callable[[], None]
) -> tuple[list[Row], list[Comparison]]:
    backend = stack.filled_backend()
    constant = stack.launch_constant(sample_answer(backend.port))
    ours: dict[int, list[Served]] = {c: [] for c in plan.connections}
    theirs: dict[int, list[Served]] = {c: [] for c in plan.connections}
    bare: list[dict[str, float]] = []
    for server in (backend, constant):  # warm caches, and what the interpreter specialises
        load.run(server.port, records.PATH, stack.count, 16, plan.seconds)
    for _ in range(plan.rounds):
        for connections in plan.connections:
            for server, found in ((backend, ours), (constant, theirs)):
                found[connections].append(
                    load.measure(
                        (server.pid,), server.port, records.PATH, stack.count, connections,
                        plan.seconds,
                    )
                )  # fmt: skip
                step()
        copy = str(stack.copy_of(backend))
        bare.append(run_reference("get", copy, str(stack.count), str(plan.gets)))
        step()
    rows, comparisons = [], []
    for connections in plan.connections:
        rows.append(served_row("backend", connections, ours[connections], peak_rss_mb(backend.pid)))
        rows.append(
            served_row("asgi-constant", connections, theirs[connections], peak_rss_mb(constant.pid))
        )
        comparisons.append(
            Comparison.of(
                f"CPU a point read, {connections} conn.",
                "µs",
                [served.cpu_us for served in ours[connections]],
                "bare ASGI app, constant answer",
                [served.cpu_us for served in theirs[connections]],
                CPU_TARGET if connections == TARGET_CONNECTIONS else None,
            )
        )
    rows.append(
        Row(
            "rocksdict",
            rps=median(each["rps"] for each in bare),
            cpu_us=median(each["cpu_us"] for each in bare),
        )
    )
    comparisons.append(
        Comparison.of(
            f"CPU a point read, {TARGET_CONNECTIONS} conn.",
            "µs",
            [served.cpu_us for served in ours[TARGET_CONNECTIONS]],
            "bare rocksdict get",
            [each["cpu_us"] for each in bare],
        )
    )
    stack.stop(constant)
    return rows, comparisons


def sample_answer(port: int) -> asking.Answer:
    """An answer of a backend as any of its reads gets one."""
    answer = asking.get(port, f"{records.PATH}/{records.key(0).decode()}")
    if answer is None or answer.status != 200:
        raise RuntimeError(f"the filled backend answers {answer}")
    return answer


def served_row(
    name: str, connections: int, rounds: list[Served], rss_mb: float | None = None
) -> Row:
    """The medians of the rounds."""
    return Row(
        name,
        connections,
        rps=median(served.load.rps for served in rounds),
        p50_ms=median(served.load.p50_ms for served in rounds),
        p99_ms=median(served.load.p99_ms for served in rounds),
        p999_ms=median(served.load.p999_ms for served in rounds),
        cpu_us=median(served.cpu_us for served in rounds),
        rss_mb=rss_mb,
    )
