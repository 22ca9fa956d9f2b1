"""The report of a run: measured rows with their comparisons, as a table and as results.json.

The report is written after each measurement, so that the rows remain if a run fails or is
interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

NOT_MEASURED = "not measured"

QUANTITIES = {
    "rps": ("rate", "/s"),
    "p50_ms": ("p50", "ms"),
    "p99_ms": ("p99", "ms"),
    "cpu_us": ("CPU", "µs"),
    "rss_mb": ("memory", "MB"),
    "seconds": ("time", "s"),
    "disk_mb": ("disk", "MB"),
    "percent": ("CPU", "% of a core"),
    "bytes": ("size", "B"),
}
"""What is compared: its name and its unit. `rps`: requests (or records, keys, entries) per second;
`cpu_us`: CPU time of one of them (user + system, all threads and processes of the servers);
`rss_mb`: the servers' resident memory in MB (10⁶), shared pages once; for ingest, references and
streams the peak of the largest process; `disk_mb`: compacted files in MB;
`bytes`: of the answer, for each of its rows."""

COLUMNS = {
    "rps": "/s", "p50_ms": "p50 ms", "p99_ms": "p99 ms", "p99_9_ms": "p99.9 ms", "cpu_us": "CPU µs",
    "rss_mb": "MB", "batch": "batch",
}  # fmt: skip
"""The values in the table. `batch`: the average number of reads that nginx sent in one request."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, the least and the greatest of some measurements, in their unit."""

    median: float
    low: float
    high: float

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Spread:
        """Raises ValueError if there is no measurement."""
        if not values:
            raise ValueError("no measurement, no median")
        return cls(median(values), min(values), max(values))

    def __str__(self) -> str:
        """`12.3 (12.0–13.1)`; only the median if there was one round."""
        if self.low == self.high:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)}–{number(self.high)})"


def paired_ratio(ours: Sequence[float], reference: Sequence[float]) -> Spread:
    """The spread of the ratios of both measurements of each round.

    Noise in one round slows both sides, so the median of these ratios varies less than the ratio of
    the medians. The reference has fewer rounds if it has failed, or while a round is measured.
    """
    return Spread.from_values([a / b for a, b in zip(ours, reference, strict=False) if b])


@dataclass(frozen=True, slots=True)
class Target:
    """An upper or lower bound for our quantity, or for its ratio to the reference."""

    bound: float
    at_least: bool = False
    is_ratio: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        bound = f"{'≥' if self.at_least else '≤'} {number(self.bound)}"
        return f"ratio {bound}" if self.is_ratio else bound


@dataclass(frozen=True, slots=True)
class Comparison:
    """A quantity of ours and of the row `baseline`. `reference` has the values of that row.
    `reference` and `ratio` are None if it was not measured; `ratio` also if it was zero."""

    quantity: str
    ours: Spread
    baseline: str
    reference: Spread | None
    ratio: Spread | None
    target: Target | None = None

    @classmethod
    def from_rounds(
        cls,
        quantity: str,
        ours: Sequence[float],
        baseline: str,
        reference: Sequence[float],
        target: Target | None = None,
    ) -> Comparison:
        """Compares the rounds of both, given in the same order; the reference may have fewer."""
        if not reference:
            return cls(quantity, Spread.from_values(ours), baseline, None, None, target)
        ratio = paired_ratio(ours, reference) if any(reference[: len(ours)]) else None
        return cls(
            quantity,
            Spread.from_values(ours),
            baseline,
            Spread.from_values(reference),
            ratio,
            target,
        )

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is no target, or if its ratio is None."""
        if self.target is None:
            return None
        value = self.ratio if self.target.is_ratio else self.ours
        return None if value is None else self.target.met(value.median)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        words = {True: "met", False: "MISSED", None: NOT_MEASURED}
        return f"{self.target} {words[self.met]}"

    def __str__(self) -> str:
        what, unit = QUANTITIES[self.quantity]
        ours = f"{what} {number(self.ours.median)} {unit}"
        if self.reference is None:
            return f"{ours}; {self.baseline}: {NOT_MEASURED}"
        if self.ratio is None:
            return f"{ours}; {self.baseline}: {number(self.reference.median)}"
        return f"{ours} = {self.ratio} × {self.baseline}"


@dataclass(frozen=True, slots=True)
class Row:
    """The measurements of one subject. `values`: the medians of the rounds, by quantity. `rounds`:
    how often it was measured. `reference`: whether a reference gave the answers, not ours. `wrong`:
    the wrong answers among those that were measured. `failure`: why it was not measured in more
    rounds."""

    name: str
    connections: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    rounds: int = 1
    reference: bool = False
    wrong: list[str] = field(default_factory=list)
    failure: str = ""

    @property
    def title(self) -> str:
        """The name of the row, and its number of connections, if it has one."""
        return self.name if self.connections is None else f"{self.name} at {self.connections}"

    @property
    def faults(self) -> list[str]:
        """What went wrong, for the table: without the logs, which results.json has."""
        failure = self.failure.partition("\n")[0]
        whose = "the reference" if self.reference else "OURS"
        wrong = [f"{whose} gave wrong answers: {text}" for text in self.wrong]
        return [*wrong, *([f"{whose} failed: {failure}"] if failure else [])]

    @property
    def cells(self) -> list[str]:
        """The columns of the table from connections on; empty if the row has no value."""
        values = (self.values.get(name) for name in COLUMNS)
        connections = "" if self.connections is None else str(self.connections)
        return [connections, *("" if value is None else number(value) for value in values)]

    def without_targets(self) -> Row:
        """The same row without targets."""
        return replace(self, comparisons=[replace(c, target=None) for c in self.comparisons])

    def document(self) -> dict[str, Any]:
        """The row in results.json."""
        document = asdict(self)
        for comparison, written in zip(self.comparisons, document["comparisons"], strict=True):
            written["met"] = comparison.met
        return document


@dataclass
class Report:
    """The rows of a run by group, in the order of their measurement. `unfinished`: the groups that
    are not measured, or not completely, and why."""

    machine: dict[str, Any]
    options: dict[str, Any]
    groups: dict[str, list[Row]] = field(default_factory=dict)
    unfinished: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.groups.values() for row in rows]

    def put(self, group: str, rows: Iterable[Row]) -> None:
        """Replaces the rows of a group with those measured so far; drops rows without content."""
        self.groups[group] = [row for row in rows if row.rounds or row.faults]

    @property
    def problems(self) -> list[str]:
        """Why the run has failed: wrong answers of ours, and groups that are not complete."""
        wrong = [
            f"{row.title}: {text}" for row in self.rows if not row.reference for text in row.wrong
        ]
        begun = {group: why for group, why in self.unfinished.items() if why != NOT_MEASURED}
        not_measured = ", ".join(group for group in self.unfinished if group not in begun)
        return [
            *wrong,
            *(f"{group}: {why}" for group, why in begun.items()),
            *([f"{NOT_MEASURED}: {not_measured}"] if not_measured else []),
        ]

    def table(self) -> Table:
        """One line per row or comparison; ratios are ours ÷ reference: median (least–greatest)."""
        table = Table(
            title="Measured alternately; ratios: ours ÷ reference, median (least–greatest)",
            title_justify="left",
            box=box.SIMPLE_HEAD,
        )
        table.add_column("")
        for name in ("conn.", *COLUMNS.values()):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("ours = ratio × reference")
        table.add_column("target", no_wrap=True)
        for row in self.rows:
            missed = any(comparison.met is False for comparison in row.comparisons)
            is_ours_wrong = bool(row.faults) and not row.reference
            style = "red" if missed or is_ours_wrong else "yellow" if row.faults else None
            lines = [(str(comparison), comparison.verdict) for comparison in row.comparisons]
            lines += [(escape(fault), "") for fault in row.faults]
            first_line, *further_lines = lines or [("", "")]
            table.add_row(row.name, *row.cells, *first_line, style=style)
            for line in further_lines:
                table.add_row(*[""] * (len(COLUMNS) + 2), *line, style=style)
        return table

    def document(self) -> dict[str, Any]:
        """The content of results.json."""
        return {
            "machine": self.machine,
            "options": self.options,
            "unfinished": self.unfinished,
            "rows": [
                {"group": group, **row.document()}
                for group, rows in self.groups.items()
                for row in rows
            ],
        }

    def write(self, path: Path) -> None:
        """Replaces the file atomically, so that it is complete after each interruption."""
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(self.document(), indent=1, ensure_ascii=False) + "\n")
        os.replace(new, path)


def number(value: float) -> str:
    """Three significant digits: 0.0123, 1.23, 12.3, 123, 1,234."""
    if value == 0:
        return "0"
    digits = 0
    while abs(value) * 10**digits < 99.95 and digits < 4:
        digits += 1
    return f"{value:,.{digits}f}"
