"""The table and results.json."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench.report import NOT_MEASURED, Comparison, Report, Row, Spread, Target, number


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
    assert str(Spread(2.0, 1.0, 3.0)) == "2.00 (1.00–3.00)"
    assert str(Spread(2.0, 2.0, 2.0)) == "2.00"


def test_target_is_met_at_its_bound() -> None:
    assert Target(100.0).met(100.0)
    assert not Target(100.0).met(100.1)
    assert Target(150_000.0, at_least=True).met(150_000.0)
    assert not Target(150_000.0, at_least=True).met(149_999.0)
    assert str(Target(150_000.0, at_least=True)) == "≥ 150,000"


def _report() -> Report:
    report = Report({"cores": 2}, {"rounds": 3})
    comparisons = [
        Comparison.from_rounds(
            "cpu_us", [80.0, 90.0, 70.0], "bare", [40.0, 45.0, 35.0], Target(100.0)
        ),
        Comparison.from_rounds("rss_mb", [300.0], "bare", [100.0], Target(250.0)),
        Comparison.from_rounds("p99_ms", [3.0], "idle", [2.0]),
        Comparison.from_rounds("p50_ms", [2.0], "idle", [2.0], Target(1.05, is_ratio=True)),
    ]
    ours = Row("backend", 16, {"rps": 10_000.0, "cpu_us": 80.0, "threads": 9.0}, comparisons)
    report.put("reads", [ours, Row("bare", values={"cpu_us": 40.0})])
    return report


def _printed(report: Report) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=200).print(report.table())
    return out.getvalue().splitlines()


def test_table_has_ratios_verdicts_and_references() -> None:
    lines = _printed(_report())
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
    assert row["values"] == {"rps": 10_000.0, "cpu_us": 80.0, "threads": 9.0}
    assert (row["name"], row["connections"], row["group"]) == ("backend", 16, "reads")
    assert [each["met"] for each in row["comparisons"]] == [True, False, None, True]
    assert row["comparisons"][0]["ratio"] == {"median": 2.0, "low": 2.0, "high": 2.0}
    assert bare["comparisons"] == []


def test_a_target_may_be_a_bound_of_the_ratio() -> None:
    slow = Comparison.from_rounds("p50_ms", [1.1], "idle", [1.0], Target(1.05, is_ratio=True))
    assert slow.met is False
    assert slow.verdict == "ratio ≤ 1.05 MISSED"


def test_a_row_without_targets_has_no_verdicts() -> None:
    [row, _] = _report().rows
    assert all(each.met is None for each in row.without_targets().comparisons)


def test_a_comparison_with_a_failed_reference_keeps_ours() -> None:
    absolute = Comparison.from_rounds("cpu_us", [80.0], "Redis", [], Target(100.0))
    assert (absolute.met, absolute.verdict) == (True, "≤ 100 met")
    assert str(absolute) == "CPU 80.0 µs; Redis: not measured"
    ratio = Comparison.from_rounds("cpu_us", [80.0], "Redis", [], Target(1.0, is_ratio=True))
    assert (ratio.met, ratio.verdict) == (None, "ratio ≤ 1.00 not measured")


def test_a_reference_without_any_cost_has_no_ratio() -> None:
    idle = Comparison.from_rounds("percent", [0.5], "Redis", [0.0], Target(1.0))
    assert (idle.met, str(idle)) == (True, "CPU 0.500 % of a core; Redis: 0")


def test_the_table_has_faults_beside_their_rows() -> None:
    report = _report()
    wrong = Row(
        "redis", 16, values={"cpu_us": 40.0}, reference=True, wrong=["of 9 requests, 3 [404]"]
    )
    failed = Row("streams", rounds=0, reference=True, failure="it ended\nits log")
    report.put("references", [wrong, failed, Row("not measured yet", rounds=0)])
    assert report.problems == []
    lines = [" ".join(line.split()) for line in _printed(report)]
    assert "redis 16 40.0 the reference gave wrong answers: of 9 requests, 3 [404]" in lines
    assert "streams the reference failed: it ended" in lines
    assert not any("its log" in line for line in lines)
    assert not any("yet" in line for line in lines)


def test_only_wrong_answers_of_ours_and_incomplete_groups_are_problems() -> None:
    report = _report()
    report.put("ours", [Row("proxy", 64, wrong=["of 9 requests, 3"])])
    report.unfinished = {"top": "interrupted", "group": NOT_MEASURED, "latency": NOT_MEASURED}
    assert report.problems == [
        "proxy at 64: of 9 requests, 3", "top: interrupted", "not measured: group, latency",
    ]  # fmt: skip
    assert any("OURS gave wrong answers" in line for line in _printed(report))


def test_rows_of_a_group_are_replaced_and_keep_their_place(tmp_path: Path) -> None:
    report = _report()
    report.put("top", [Row("top", values={"cpu_us": 1.0})])
    report.put("reads", [Row("backend", 16, values={"cpu_us": 70.0}, rounds=2)])
    path = tmp_path / "results.json"
    report.write(path)
    rows = json.loads(path.read_text())["rows"]
    found = [(row["group"], row["name"], row["values"], row["rounds"]) for row in rows]
    assert found == [
        ("reads", "backend", {"cpu_us": 70.0}, 2), ("top", "top", {"cpu_us": 1.0}, 1),
    ]  # fmt: skip
    assert list(tmp_path.iterdir()) == [path]
