"""Writes a run into the docs: replaces one section of performance.md, and its plots."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.machine import describe_interpreter
from bench.models import growth, machines, read_cost
from bench.report import NOT_MEASURED, number
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
    except (ValueError, KeyError) as error:  # KeyError: of an older version
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
            *_faults(document),
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
    built = describe_interpreter(machine["interpreter"])
    return _paragraph(
        f"`python -m bench --publish` writes this section from the last run: {machine['cores']} "
        f"cores ({machine['cpu']}), {machine['memory_gb']} GB, {system}, {built}; "
        f"{options['records']:,} keys, medians of {options['rounds']} rounds of "
        f"{options['seconds']} s, all rows alternately, loopback only. Other processes used "
        f"{machine['others']:.0%} of the cores. CPU is that of all servers of the row, MB their "
        f"resident memory with shared pages counted once (`rocksdict`: its peak); batch is the "
        f"average number of reads that nginx sent to a backend in one request."
    )


def _paragraph(text: str) -> str:
    """Wraps the text to lines of at most ``LINE`` characters; keeps its line breaks."""
    return "\n".join(_wrapped(line) for line in text.split("\n"))


def _wrapped(line: str, indent: str = "") -> str:
    """Wraps a line. `indent`: the indent of all lines but the first."""
    lines = textwrap.wrap(
        line, LINE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def _header(*first: str) -> list[str]:
    return [*first, *_HEADER]


def _table(header: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *lines])


def _numbers(row: Document) -> list[str]:
    values = [*(row[name] for name in _COLUMNS), row["more"].get("batch")]
    return ["" if value is None else number(value) for value in values]


def _name(row: Document) -> str:
    """The name of a row, with a mark if the row is in the list of faults."""
    return f"`{row['name']}`{' †' if row['wrong'] or row['failure'] else ''}"


def _faults(document: Document) -> list[str]:
    """What went wrong in this run, if anything: without paths of the machine."""
    found = []
    for row in document["rows"]:
        at = "" if row["connections"] is None else f" at {row['connections']}"
        whose = "reference" if row["reference"] else "**ours**"
        title = f"`{row['name']}`{at} ({whose})"
        found += [f"{title}, wrong answers: {each}" for each in row["wrong"]]
        if row["failure"]:
            found.append(f"{title} failed after {row['rounds']} rounds")
    if document["unfinished"]:
        groups = ", ".join(f"`{group}`" for group in document["unfinished"])
        found.append(f"Not measured, or not to the end: {groups}")
    items = "\n".join(_wrapped(f"- {each}", "  ") for each in found)
    return ["† What went wrong in this run:", items] if found else []


def _read_rows(document: Document) -> list[list[str]]:
    return [
        [_name(row), str(row["connections"] or ""), *_numbers(row)]
        for row in document["rows"]
        if row["name"] in _READS
    ]


def _factor_rows(document: Document) -> list[list[str]]:
    return [
        [_name(row)]
        + [f"{row['more'][name]:,}" for name in ("backends", "keys", "partitions", "value_bytes")]
        + _numbers(row)
        for row in document["rows"]
        if "backends" in row["more"]
    ]


def _verdict(met: bool, value: float) -> str:
    return f"{'met' if met else 'missed'} ({number(value)})"


def _targets(document: Document) -> list[str]:
    """One line per target of the run's rows, with the result."""
    found = []
    for row in document["rows"]:
        at = "" if row["connections"] is None else f" at {row['connections']}"
        for each in row["beside"]:
            if (target := each["target"]) is None:
                continue
            value = each["ratio" if target["of_ratio"] else "ours"]
            unit = f"× {each['beside']}" if target["of_ratio"] else each["unit"]
            found.append(
                f"`{row['name']}`{at}, {each['what']} {'≥' if target['at_least'] else '≤'} "
                f"{number(target['bound'])} {unit}: "
                + (NOT_MEASURED if value is None else _verdict(each["met"], value["median"]))
            )
    return found or ["none, because the run was too small"]
