"""The part of a run that is written into the docs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import growth
from bench.publish import HEADING, LINE, publish, section_of, with_section
from bench.report import Comparison, Report, Row, Target
from local.errors import LocalError

ROOT = Path(__file__).parents[3]
BASE = {"backends": 1, "keys": 100_000, "partitions": 6, "value_bytes": 100, "zipf": 0}
MACHINE = {
    "cores": 2, "cpu": "a CPU", "memory_gb": 25.0, "system": "Linux 6.1-x", "python": "3.11.7",
    "others": 0.07,
}  # fmt: skip


def _row(name: str, connections: int, cpu_us: float, **more: float) -> Row:
    more["batch"] = max(1.0, 700 / cpu_us)
    return Row(name, connections, 1000.0, 1.0, 2.0, 3.0, cpu_us, 150.0, more)


def _document() -> Any:
    report = Report(MACHINE, {"records": 1_000_000, "rounds": 3, "seconds": 1})
    beside = [
        Comparison.of("CPU", "µs", [30.0], "one by one", [150.0], Target(34.0)),
        Comparison.of("CPU", "µs", [30.0], "static", [25.0], Target(1.0, of_ratio=True)),
        Comparison.of("p99", "ms", [4.0], "one by one", [8.0]),
    ]
    report.rows = [
        _row("proxy", 1, 140.0),
        replace(_row("proxy", 64, 30.0), beside=beside),
        _row("proxy-one-by-one", 64, 150.0),
        _row("proxy-base", 64, 28.0, **BASE),
        _row("proxy-zipf", 64, 27.0, **{**BASE, "zipf": 1}),
        _row("proxy-backends-2", 64, 35.0, **{**BASE, "backends": 2}),
        _row("proxy-backends-4", 64, 45.0, **{**BASE, "backends": 4}),
        _row("proxy-values-10", 64, 26.0, **{**BASE, "value_bytes": 10}),
        _row("proxy-partitions-64", 64, 29.0, **{**BASE, "partitions": 64}),
        _row("proxy-keys-1000000", 64, 31.0, **{**BASE, "keys": 1_000_000}),
        Row("ingest", rps=100.0),
    ]
    return {
        "machine": report.machine,
        "options": report.options,
        "rows": json.loads(json.dumps([row.document() for row in report.rows])),
    }


def test_section_has_rows_targets_and_the_formula() -> None:
    section = section_of(_document())
    assert max(map(len, section.split("\n"))) <= LINE
    text = " ".join(section.split())
    assert "Linux 6.1, Python 3.11.7" in text
    assert "Other processes used 7% of the cores" in text
    assert "| `proxy` | 64 | 1,000 | 1.00 | 2.00 | 3.00 | 30.0 | 150 | 23.3 |" in section
    assert "| `proxy-backends-4` | 4 | 100,000 | 6 | 100 | 1,000 |" in section
    assert "- `proxy` at 64, CPU ≤ 34.0 µs: met (30.0)" in section
    assert "`proxy` at 64, CPU ≤ 1.00 × static: missed (1.20)" in section
    assert "**Cost of a read by proxy.** CPU = " in section
    assert "ingest" not in section


def test_a_run_without_the_rows_for_the_formula_is_an_error() -> None:
    document = _document()
    document["rows"] = document["rows"][:3]
    with pytest.raises(ValueError, match="too few"):
        section_of(document)


def test_only_the_section_is_replaced() -> None:
    page = f"# Page\n\n{HEADING}\nold\n\n| old |\n\n## Next\nkept\n\n## Last\n"
    assert with_section(page, f"{HEADING}\nnew") == (
        f"# Page\n\n{HEADING}\nnew\n\n## Next\nkept\n\n## Last\n"
    )
    assert with_section(f"{HEADING}\nold\n", f"{HEADING}\nnew") == f"{HEADING}\nnew\n"


def test_a_page_without_the_section_is_an_error() -> None:
    with pytest.raises(LocalError, match="has no section"):
        with_section("# Page\n", f"{HEADING}\nnew")


@pytest.mark.slow
def test_page_plot_and_text_are_written(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(_document()))
    (tmp_path / "performance.md").write_text((ROOT / "docs" / "performance.md").read_text())
    page, plot, text = publish(tmp_path / "results.json", tmp_path)
    assert "`proxy-keys-1000000`" in page.read_text()
    assert "## Tried" in page.read_text()
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "by proxy: backends" in text.read_text()


def test_a_missing_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="no run to publish"):
        publish(tmp_path / "results.json", tmp_path)


def test_series_have_the_base_row_and_the_rows_that_vary_one_factor() -> None:
    found = growth.by_factor(_document())
    assert found["backends"].points == ((1, 28.0), (2, 35.0), (4, 45.0))
    assert found["keys"].points == ((100_000, 28.0), (1_000_000, 31.0))
    assert [series.name for series in growth.by_connections(_document())] == [
        "proxy",
        "proxy-one-by-one",
    ]


def test_bars_are_as_long_as_the_costs() -> None:
    lines = growth.text(_document()).splitlines()
    bars = {line.split()[-1]: line.count("█") for line in lines if "█" in line}
    assert bars["150"] == 48
    assert bars["30.0"] == round(48 * 30 / 150)
