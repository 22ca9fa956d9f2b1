"""The table and results.json."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench.report import Comparison, Report, Row, Target, number, spread_text
from bench.spread import Spread


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (1.2345, "1.23"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (85.43, "85.4"),
        (99.96, "100"),
        (150000.4, "150,000"),
        (-3.14159, "-3.14"),
    ],
)
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_spread_shows_the_ends_if_they_differ() -> None:
    assert spread_text(Spread(2.0, 1.0, 3.0)) == "2.00 (1.00–3.00)"
    assert spread_text(Spread(2.0, 2.0, 2.0)) == "2.00"


def test_target_is_met_at_its_bound() -> None:
    assert Target(100.0).met(100.0)
    assert not Target(100.0).met(100.1)
    assert Target(150_000.0, at_least=True).met(150_000.0)
    assert not Target(150_000.0, at_least=True).met(149_999.0)
    assert str(Target(150_000.0, at_least=True)) == "≥ 150,000"


def _report() -> Report:
    report = Report({"cores": 2}, {"rounds": 3})
    beside = [
        Comparison.of("CPU", "µs", [80.0, 90.0, 70.0], "bare", [40.0, 45.0, 35.0], Target(100.0)),
        Comparison.of("memory", "MB", [300.0], "bare", [100.0], Target(250.0)),
        Comparison.of("p99", "ms", [3.0], "idle", [2.0]),
        Comparison.of("p50", "ms", [2.0], "idle", [2.0], Target(1.05, of_ratio=True)),
    ]
    report.rows.append(Row("backend", 16, rps=10_000.0, cpu_us=80.0, beside=beside))
    report.rows.append(Row("bare", cpu_us=40.0))
    return report


def test_table_has_ratios_verdicts_and_references() -> None:
    out = io.StringIO()
    Console(file=out, width=160).print(_report().table())
    lines = out.getvalue().splitlines()
    ours = next(line for line in lines if "backend" in line)
    assert ours.split()[:5] == ["backend", "16", "10,000", "80.0", "CPU"]
    assert "CPU 80.0 µs = 2.00 × bare" in ours
    assert "≤ 100 met" in ours
    assert "≤ 250 MISSED" in next(line for line in lines if " memory " in line)
    assert "p99 3.00 ms = 1.50 × idle" in next(line for line in lines if " p99 3" in line)
    assert "ratio ≤ 1.05 met" in next(line for line in lines if " p50 2" in line)
    assert any(line.split() == ["bare", "40.0"] for line in lines)


def test_results_are_complete_json(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    _report().write(path)
    document = json.loads(path.read_text())
    assert document["machine"] == {"cores": 2}
    row, bare = document["rows"]
    assert set(row) >= {
        "name", "connections", "rps", "p50_ms", "p99_ms", "p99_9_ms", "cpu_us", "rss_mb",
    }  # fmt: skip
    assert [each["met"] for each in row["beside"]] == [True, False, None, True]
    assert row["beside"][0]["ratio"] == {"median": 2.0, "low": 2.0, "high": 2.0}
    assert bare["beside"] == []


def test_a_target_may_be_a_bound_of_the_ratio() -> None:
    slow = Comparison.of("p50", "ms", [1.1], "idle", [1.0], Target(1.05, of_ratio=True))
    assert slow.met is False
    assert slow.verdict == "ratio ≤ 1.05 MISSED"


def test_a_row_without_targets_has_no_verdicts() -> None:
    [row, _] = _report().rows
    assert all(each.met is None for each in row.without_targets().beside)
