"""What a run says: measured rows, comparisons, the table of ratios and results.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from bench.spread import Spread, paired_ratio


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured on one subject, the median of the rounds; None where it does not apply.

    `rps` is requests (or records) a second, `cpu_us` CPU time (user + system, all threads and
    processes of the servers) of one of them in µs, `rss_mb` their peak resident memory in MB (10⁶).
    """

    name: str
    connections: int | None = None
    rps: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    cpu_us: float | None = None
    rss_mb: float | None = None
    more: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that issue and docs name; at most `bound`, or at least where `at_least`."""

    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {number(self.bound)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table: a quantity of ours and of the reference beside it."""

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
        """From the rounds of both, in the same order."""
        ratio = paired_ratio(ours, reference)
        return cls(what, unit, Spread.of(ours), beside, Spread.of(reference), ratio, target)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return f"{self.target} {'met' if self.target.met(self.ours.median) else 'MISSED'}"


@dataclass
class Report:
    """All of a run, filled row by row."""

    machine: dict[str, Any]
    options: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)

    def table(self) -> Table:
        """Ratios first: ours ÷ reference, median (least–greatest) of the rounds."""
        table = Table(
            title="Ours ÷ reference, measured in turn: median (least–greatest)",
            title_justify="left",
            box=box.SIMPLE_HEAD,
        )
        table.add_column("")
        table.add_column("ratio", justify="right", no_wrap=True)
        for name in ("ours", "reference"):
            table.add_column(name, justify="right")
        table.add_column("", no_wrap=True)
        table.add_column("target (ours)", no_wrap=True)
        for beside, comparisons in groupby(self.comparisons, lambda each: each.beside):
            table.add_row(f"[bold]beside {beside}[/]")
            for each in comparisons:
                table.add_row(
                    f"  {each.what}",
                    spread_text(each.ratio),
                    spread_text(each.ours),
                    spread_text(each.reference),
                    each.unit,
                    each.verdict,
                    style="red" if each.verdict.endswith("MISSED") else None,
                )
        return table

    def write(self, path: Path) -> None:
        document = {
            "machine": self.machine,
            "options": self.options,
            "rows": [asdict(row) for row in self.rows],
            "ratios": [
                {**asdict(each), "met": each.target.met(each.ours.median) if each.target else None}
                for each in self.comparisons
            ],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def number(value: float) -> str:
    """Three digits that matter: 0.0123, 1.23, 12.3, 123, 1,234."""
    if value == 0:
        return "0"
    digits = 0
    while abs(value) * 10**digits < 99.95 and digits < 4:
        digits += 1
    return f"{value:,.{digits}f}"


def spread_text(spread: Spread) -> str:
    """`12.3 (12.0–13.1)`, and only the median when there was one round."""
    if spread.low == spread.high:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.low)}–{number(spread.high)})"
