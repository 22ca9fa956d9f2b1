"""The part of a run that is written into the docs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.models import growth
from bench.publish import HEADING, LINE, publish, section_of, with_section
from bench.report import NOT_MEASURED, Comparison, Report, Row, Target
from local.errors import LocalError

ROOT = Path(__file__).parents[3]
BASE = {"backends": 1, "keys": 100_000, "partitions": 6, "value_bytes": 100, "zipf": 0}
MACHINE = {
    "cores": 2, "cpu": "a CPU", "memory_gb": 25.0, "system": "Linux 6.1-x", "others": 0.07,
    "interpreter": {
        "implementation": "CPython", "version": "3.11.7", "path": "/home/somebody/bin/python",
        "pgo": True, "lto": False,
    },
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
    report.groups["all"] = [
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
    return json.loads(json.dumps(report.document()))


def test_section_has_rows_targets_and_the_formula() -> None:
    section = section_of(_document())
    assert max(map(len, section.split("\n"))) <= LINE
    text = " ".join(section.split())
    assert "Linux 6.1, CPython 3.11.7, built with PGO and without LTO; 1,000,000 keys" in text
    assert "somebody" not in text
    assert "†" not in text
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


def test_faults_are_published_beside_their_rows() -> None:
    document = _document()
    proxy, *_, last = document["rows"]
    first_wrong = "of 5,000 requests, 3 were answered with an error and 0 not at all"
    proxy["wrong"] = [first_wrong, "more " * 40]
    failed = Row("redis-asgi", 64, rounds=0, reference=True, failure="/home/somebody: ended")
    for row in (failed, replace(failed, name="streams-launch")):
        document["rows"].append({"group": "reads", **row.document()})
    document["unfinished"] = {"top": "interrupted", "latency": NOT_MEASURED}
    target = Target(1.5, at_least=True, of_ratio=True)
    beside = [Comparison.of("rate", "/s", [9.0], "streams", [], target)]
    last["beside"] = json.loads(json.dumps(Row("ingest", beside=beside).document()))["beside"]
    section = section_of(document)
    assert max(map(len, section.split("\n"))) <= LINE
    assert "| `proxy` † | 1 | 1,000 |" in section
    assert "| `redis-asgi` † | 64 |  |  |  |  |  |  |  |" in section
    assert f"- `proxy` at 1 (**ours**), wrong answers: {first_wrong}" in section
    assert "- `redis-asgi` at 64 (reference) failed after 0 rounds" in section
    assert "- `streams-launch` at 64 (reference) failed" in section
    assert "- Not measured, or not to the end: `top`, `latency`" in section
    assert "- `ingest`, rate ≥ 1.50 × streams: not measured" in section
    assert "somebody" not in section
    assert "redis-asgi" not in growth.text(document)  # no cost to plot


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
