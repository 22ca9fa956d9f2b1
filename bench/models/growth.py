"""How the cost of reads grows: series of a run, as a plot and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import number

Document = Mapping[str, Any]

_SUBJECTS = ("proxy", "proxy-one-by-one", "proxy-to-static", "backend", "redis-asgi")
_FACTORS = {
    "keys": "keys",
    "partitions": "partitions",
    "backends": "backends",
    "value_bytes": "bytes per value",
    "zipf": "keys read uniformly (0) or by Zipf's law (1)",
}
_NAMES = {"value_bytes": "values"}
_WIDTH = 48
TITLE = "CPU of all servers per read, µs"


@dataclass(frozen=True, slots=True)
class Series:
    """Points of the varied value and the cost (µs), in ascending order."""

    name: str
    points: tuple[tuple[float, float], ...]


def by_connections(document: Document) -> list[Series]:
    """One series per subject."""
    return [
        Series(name, tuple(points))
        for name in _SUBJECTS
        if (points := [(r["connections"], r["cpu_us"]) for r in _rows(document, name)])
    ]


def by_factor(document: Document) -> dict[str, Series]:
    """Series of reads by proxy, by title: the base row, and the rows that vary only this factor."""
    found = {}
    for factor, title in _FACTORS.items():
        prefix = f"proxy-{_NAMES.get(factor, factor)}"
        rows = [
            row
            for row in document["rows"]
            if row["name"] in ("proxy-base", prefix) or row["name"].startswith(prefix + "-")
        ]
        points = sorted((row["more"][factor], row["cpu_us"]) for row in rows)
        if len(points) > 1:
            found[title] = Series("proxy", tuple(points))
    return found


def _rows(document: Document, name: str) -> list[Any]:
    """The rows with this name, except the rows of a reference that failed."""
    return [row for row in document["rows"] if row["name"] == name and row["rounds"]]


def text(document: Document) -> str:
    """The series as bars of characters, all with the same scale."""
    factors = by_factor(document)
    groups = [(f"by connections: {each.name}", each) for each in by_connections(document)]
    groups += [(f"by proxy: {title}", series) for title, series in factors.items()]
    greatest = max((cpu for _, series in groups for _, cpu in series.points), default=1.0)
    lines = [TITLE]
    for title, series in groups:
        lines += ["", title, *_bars(series.points, greatest)]
    return "\n".join(lines) + "\n"


def _bars(points: Sequence[tuple[float, float]], greatest: float) -> list[str]:
    return [
        f"{value:>12,.0f} {'█' * max(1, round(_WIDTH * cpu / greatest))} {number(cpu)}"
        for value, cpu in points
    ]


def plot(document: Document, path: Path) -> None:
    """Writes a PNG with a panel for connections and one for each factor."""
    # imported here because only plots need it
    from matplotlib.figure import Figure

    factors = by_factor(document)
    figure = Figure(figsize=(12, 7), layout="constrained")
    figure.suptitle(TITLE)
    panels = figure.subplots(2, 3).flat
    first = next(panels)
    for series in by_connections(document):
        first.plot(*zip(*series.points, strict=True), marker="o", label=series.name)
    first.set_xlabel("connections")
    first.set_ylim(bottom=0)
    first.legend(fontsize="small")
    _scale(first, [x for series in by_connections(document) for x, _ in series.points])
    costs = [cpu for series in factors.values() for _, cpu in series.points]
    for panel, (title, series) in zip(panels, factors.items(), strict=False):
        panel.set_ylim(0, 1.1 * max(costs))
        panel.plot(*zip(*series.points, strict=True), marker="o")
        panel.set_xlabel(title)
        _scale(panel, [x for x, _ in series.points])
    for panel in panels:
        panel.set_visible(False)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def _scale(panel: Any, values: Sequence[float]) -> None:
    """Sets ticks at the values, and a logarithmic scale if all are positive."""
    panel.grid(alpha=0.3)
    distinct = sorted(set(values))
    if distinct and distinct[0] > 0:
        panel.set_xscale("log")
    panel.set_xticks(distinct, [f"{value:,.0f}" for value in distinct])
    panel.minorticks_off()
