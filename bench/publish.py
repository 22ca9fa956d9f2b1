"""Writes a run into the docs: replaces one section of performance.md, and its plots."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import growth
from bench.models import machines, read_cost
from bench.report import number
from local.errors import LocalError

HEADING = "## Reads side by side, and how their cost grows"
LINE = 120  # characters of a line of Markdown
_HEADER = ["/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU µs", "MB", "batch"]
_COLUMNS = ("rps", "p50_ms", "p99_ms", "p99_9_ms", "cpu_us", "rss_mb")
_READS = (
    "proxy", "proxy-one-by-one", "proxy-to-static", "backend", "asgi-constant", "redis-asgi",
    "nginx-static", "rocksdict",
)  # fmt: skip

_MACHINES = (
    "**10, 100 and 1,000 such machines**, each with as many workers of nginx and a backend per "
    "core, if every nginx sends reads to every backend. *rebalance* is the leader's CPU time, "
    "*nginx* the memory of a worker for the topology (10 partitions for each backend). "
    "*group's record*: on the broker, if the topology is sent by reference; above 1 MB, its "
    "`max.message.bytes` must be raised. CPU is the first limit. The network between machines, "
    "which costs more than the loopback device, is not included."
)

Document = Mapping[str, Any]


def publish(results: Path, docs: Path) -> list[Path]:
    """Writes the run of results.json; returns the written files. Raises LocalError."""
    try:
        document = json.loads(results.read_text())
    except OSError as error:
        raise LocalError(f"no run to publish: {results}: {error.strerror}.") from error
    page, plot, bars = docs / "performance.md", docs / "reads.png", docs / "reads.txt"
    try:
        section = section_of(document)
    except ValueError as error:
        raise LocalError(f"{results} cannot be published: {error}.") from error
    page.write_text(with_section(page.read_text(), section))
    growth.plot(document, plot)
    bars.write_text(growth.text(document))
    return [page, plot, bars]


def with_section(page: str, section: str) -> str:
    """The page, with its section of the same heading replaced; LocalError if it has none."""
    heading = section.partition("\n")[0]
    before, found, rest = page.partition(f"{heading}\n")
    if not found:
        raise LocalError(f"performance.md has no section {heading!r}.")
    _, next_heading, after = rest.partition("\n## ")
    return f"{before}{section.rstrip()}\n{next_heading}{after}"


def section_of(document: Document) -> str:
    """The section as Markdown; ValueError if the run lacks rows."""
    header, *lines = machines.table(document)
    return "\n\n".join(
        [
            f"{HEADING}\n{_about(document)}",
            _table(_header("row", "conn."), _read_rows(document)),
            "\n".join(["Targets:", "", *(f"- {target}" for target in _targets(document))]),
            "![CPU of a read by connections, keys, partitions, backends, values](reads.png)",
            _paragraph(
                "The same as text: [reads.txt](reads.txt). Each of the following rows varies one "
                "factor of the base row (64 connections, by proxy; the row with large values has a "
                "tenth of the keys)."
            ),
            _table(
                _header("row", "backends", "keys", "partitions", "B per value"),
                _factor_rows(document),
            ),
            _paragraph(f"**Cost of a read by proxy.** {read_cost.describe(document)}"),
            _paragraph(_MACHINES),
            _table(header, lines),
        ]
    )


def _about(document: Document) -> str:
    machine, options = document["machine"], document["options"]
    system = machine["system"].partition("-")[0]
    return _paragraph(
        f"`python -m bench --publish` writes this section from the last run: {machine['cores']} "
        f"cores ({machine['cpu']}), {machine['memory_gb']} GB, {system}, Python "
        f"{machine['python']}; {options['records']:,} keys, medians of {options['rounds']} rounds "
        f"of {options['seconds']} s, all rows alternately, loopback only. Other processes used "
        f"{machine['others']:.0%} of the cores. CPU is that of all servers of the row, MB their "
        f"resident memory with shared pages counted once (`rocksdict`: its peak); batch is the "
        f"average number of reads that nginx sent to a backend in one request."
    )


def _paragraph(text: str) -> str:
    """Wraps the text to lines of at most ``LINE`` characters; keeps its line breaks."""
    lines = (
        textwrap.wrap(line, LINE, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )
    return "\n".join(each for line in lines for each in line)


def _header(*first: str) -> list[str]:
    return [*first, *_HEADER]


def _table(header: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *lines])


def _numbers(row: Document) -> list[str]:
    values = [*(row[name] for name in _COLUMNS), row["more"].get("batch")]
    return ["" if value is None else number(value) for value in values]


def _read_rows(document: Document) -> list[list[str]]:
    return [
        [f"`{row['name']}`", str(row["connections"] or ""), *_numbers(row)]
        for row in document["rows"]
        if row["name"] in _READS
    ]


def _factor_rows(document: Document) -> list[list[str]]:
    return [
        [f"`{row['name']}`"]
        + [f"{row['more'][name]:,}" for name in ("backends", "keys", "partitions", "value_bytes")]
        + _numbers(row)
        for row in document["rows"]
        if "backends" in row["more"]
    ]


def _targets(document: Document) -> list[str]:
    """One line per target of the run's rows, with the result."""
    found = []
    for row in document["rows"]:
        at = "" if row["connections"] is None else f" at {row['connections']}"
        for each in row["beside"]:
            if (target := each["target"]) is None:
                continue
            value = (each["ratio"] if target["of_ratio"] else each["ours"])["median"]
            unit = f"× {each['beside']}" if target["of_ratio"] else each["unit"]
            found.append(
                f"`{row['name']}`{at}, {each['what']} {'≥' if target['at_least'] else '≤'} "
                f"{number(target['bound'])} {unit}: "
                f"{'met' if each['met'] else 'missed'} ({number(value)})"
            )
    return found or ["none, because the run was too small"]
