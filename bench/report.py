"""The report of a run: measured rows with their comparisons, as a table and as results.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from bench.spread import Spread, paired_ratio


@dataclass(frozen=True, slots=True)
class Target:
    """A bound of our quantity, or of its ratio to the reference: the most or the least."""

    bound: float
    at_least: bool = False
    of_ratio: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        bound = f"{'≥' if self.at_least else '≤'} {number(self.bound)}"
        return f"ratio {bound}" if self.of_ratio else bound


@dataclass(frozen=True, slots=True)
class Comparison:
    """A quantity of ours and of the reference. `beside` is the reference's name."""

    what: str
    unit: str
    ours: Spread
    beside: str
    reference: Spread
    ratio: Spread
    target: Target | None = None

    @classmethod
    def of(
        cls,
        what: str,
        unit: str,
        ours: Sequence[float],
        beside: str,
        reference: Sequence[float],
        target: Target | None = None,
    ) -> Comparison:
        """Compares the rounds of both, given in the same order."""
        ratio = paired_ratio(ours, reference)
        return cls(what, unit, Spread.of(ours), beside, Spread.of(reference), ratio, target)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if self.target is None:
            return None
        return self.target.met((self.ratio if self.target.of_ratio else self.ours).median)

    @property
    def verdict(self) -> str:
        return "" if self.met is None else f"{self.target} {'met' if self.met else 'MISSED'}"

    def __str__(self) -> str:
        return (
            f"{self.what} {number(self.ours.median)} {self.unit} = {spread_text(self.ratio)} × "
            f"{self.beside}"
        )


@dataclass(frozen=True, slots=True)
class Row:
    """The measurements of one subject, medians of the rounds; None: does not apply.

    `rps`: requests (or records, keys, entries) per second. `cpu_us`: CPU time of one of them in µs
    (user + system, all threads and processes of the servers). `rss_mb`: the servers' resident
    memory in MB (10⁶); shared pages count once. For ingest, references and streams it is the peak
    of the largest process. `beside`: comparisons with references.
    """

    name: str
    connections: int | None = None
    rps: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    p99_9_ms: float | None = None
    cpu_us: float | None = None
    rss_mb: float | None = None
    more: dict[str, float] = field(default_factory=dict)
    beside: list[Comparison] = field(default_factory=list)

    def without_targets(self) -> Row:
        """The same row without targets."""
        return replace(self, beside=[replace(each, target=None) for each in self.beside])

    def document(self) -> dict[str, Any]:
        """The row in results.json."""
        document = asdict(self)
        for comparison, written in zip(self.beside, document["beside"], strict=True):
            written["met"] = comparison.met
        return document


@dataclass
class Report:
    """All rows of a run; they are added one by one."""

    machine: dict[str, Any]
    options: dict[str, Any]
    rows: list[Row] = field(default_factory=list)

    def table(self) -> Table:
        """One line per row or comparison; ratios are ours ÷ reference: median (least–greatest)."""
        table = Table(
            title="Measured alternately; ratios: ours ÷ reference, median (least–greatest)",
            title_justify="left",
            box=box.SIMPLE_HEAD,
        )
        table.add_column("")
        for name in ("conn.", "/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU µs", "MB"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("ours = ratio × reference")
        table.add_column("target", no_wrap=True)
        for row in self.rows:
            missed = any(each.met is False for each in row.beside)
            style = "red" if missed else None
            lines = [(str(each), each.verdict) for each in row.beside] or [("", "")]
            table.add_row(row.name, *cells(row), *lines[0], style=style)
            for line in lines[1:]:
                table.add_row(*[""] * 8, *line, style=style)
        return table

    def document(self) -> dict[str, Any]:
        """The content of results.json."""
        return {
            "machine": self.machine,
            "options": self.options,
            "rows": [row.document() for row in self.rows],
        }

    def write(self, path: Path) -> None:
        document = self.document()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def cells(row: Row) -> list[str]:
    """The columns of a row from connections to memory; empty if it has no value."""
    values = (row.rps, row.p50_ms, row.p99_ms, row.p99_9_ms, row.cpu_us, row.rss_mb)
    connections = "" if row.connections is None else str(row.connections)
    return [connections, *("" if value is None else number(value) for value in values)]


def number(value: float) -> str:
    """Three significant digits: 0.0123, 1.23, 12.3, 123, 1,234."""
    if value == 0:
        return "0"
    digits = 0
    while abs(value) * 10**digits < 99.95 and digits < 4:
        digits += 1
    return f"{value:,.{digits}f}"


def spread_text(spread: Spread) -> str:
    """`12.3 (12.0–13.1)`; only the median if there was one round."""
    if spread.low == spread.high:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.low)}–{number(spread.high)})"
