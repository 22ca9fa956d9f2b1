"""What a point read costs through the proxy, beside nginx in front of one that reads nothing."""

from __future__ import annotations

from collections.abc import Callable

from bench import load, records
from bench.asking import Answer
from bench.load import Served
from bench.plan import Plan
from bench.report import Comparison, Row
from bench.rows.reads import sample_answer, served_row
from bench.stack import Stack

_BESIDE = "nginx ► static nginx"


def steps(plan: Plan) -> int:
    return plan.rounds * 2 * len(plan.connections)


def measure(
    stack: Stack, plan: Plan, step: Callable[[], None]
) -> tuple[list[Row], list[Comparison]]:
    backend = stack.filled_backend()
    proxy = stack.launch_proxy(backend)
    static = stack.launch_nginx(static_location(sample_answer(backend.port)), workers="1")
    front = stack.launch_nginx(
        'proxy_pass http://static; proxy_http_version 1.1; proxy_set_header Connection "";',
        f"upstream static {{ server 127.0.0.1:{static.port}; keepalive 256; "
        "keepalive_requests 10000000; }",
    )
    ours: dict[int, list[Served]] = {c: [] for c in plan.connections}
    theirs: dict[int, list[Served]] = {c: [] for c in plan.connections}
    for server in (proxy, front):
        load.run(server.port, records.PATH, stack.count, 16, plan.seconds)
    for _ in range(plan.rounds):
        for connections in plan.connections:
            for server, behind, found in ((proxy, backend, ours), (front, static, theirs)):
                found[connections].append(
                    load.measure(
                        (server.pid, behind.pid), server.port, records.PATH, stack.count,
                        connections, plan.seconds,
                    )
                )  # fmt: skip
                step()
    rows, comparisons = [], []
    for connections in plan.connections:
        rows.append(served_row("proxy", connections, ours[connections]))
        rows.append(served_row("proxy-to-static", connections, theirs[connections]))
        comparisons.append(
            Comparison.of(
                f"CPU a read by proxy, {connections} conn.",
                "µs",
                [served.cpu_us for served in ours[connections]],
                _BESIDE,
                [served.cpu_us for served in theirs[connections]],
            )
        )
        comparisons.append(
            Comparison.of(
                f"reads/s by proxy, {connections} conn.",
                "/s",
                [served.load.rps for served in ours[connections]],
                _BESIDE,
                [served.load.rps for served in theirs[connections]],
            )
        )
    stack.stop(proxy, front, static)
    return rows, comparisons


def static_location(answer: Answer) -> str:
    """nginx's directives for this very answer."""
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
