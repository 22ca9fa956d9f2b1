"""`queryable derive`: a derived view on files."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from queryable.cli.app import app
from tests.support.docs_examples import BLOCK, ROOT, examples_run_by

VIEWS = """
[views.turnover]
value = "json"
[views.turnover.derive]
from = "orders"
fields = { shop = "string", qty = "int", price = "decimal(2)" }
require = "qty > 0"
key = "shop"
sum = "qty * price"

[views.by-maker.derive]
from = "flights"
fields = { plane = "string", at = "time" }
time = "at"
lateness = "1h"
window = "1m"
key = "coalesce(p.maker, 'none')"
count = true
join.p = { from = "planes", on = "plane", fields = { maker = "string" }, static = true }

[views.plain]
topic = "plain"
key = "string"
value = "json"
"""
ORDERS = """\
{"shop": "a", "qty": 2, "price": 1.25}
{"shop": "b", "qty": 0, "price": 1}

{"shop": "a", "qty": 1, "price": 0.1}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUERYABLE_VIEWS", raising=False)
    Path("views.toml").write_text(VIEWS)
    Path("orders.jsonl").write_text(ORDERS)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["derive", *arguments])


def test_entries_and_dead_letters() -> None:
    done = run("turnover", "--input", "orders.jsonl")
    assert (done.exit_code, done.stdout) == (0, '{"key":"a","value":{"sum":2.60}}\n')
    assert done.stderr == "record 2: require: not true\n"


def test_the_example_of_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "spark" / "derived-views").with_suffix(".md")
    section = page.read_text().partition("## Try before you run")[2].partition("\n## ")[0]
    blocks = dict(BLOCK.findall(section))
    Path("views.toml").write_text(blocks["toml"])
    Path("orders.jsonl").write_text(blocks["json"])
    [example] = examples_run_by(Path(__file__), page)
    done = run(*example.command.split()[2:])
    assert done.exit_code == 0
    assert (done.stderr + done.stdout).rstrip("\n") == example.shown
    test = doctest.DocTestParser().get_doctest(blocks["python"], {}, "docs", None, 0)
    result = doctest.DocTestRunner().run(test)
    assert (result.failed, result.attempted) == (0, 7), capsys.readouterr().out


def test_a_result_is_compared_with_the_expected_one() -> None:
    Path("out.jsonl").write_text('\n{"value": {"sum": 2.6}, "key": "a"}\n')
    done = run("turnover", "--input", "orders.jsonl", "--expect", "out.jsonl")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "1 entries, as expected" in done.stderr
    Path("out.jsonl").write_text('{"value": {"sum": 2.61}, "key": "a"}\n')
    done = run("turnover", "--input", "orders.jsonl", "--expect", "out.jsonl")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-2:] == [
        '-{"key":"a","value":{"sum":2.61}}',
        '+{"key":"a","value":{"sum":2.6}}',
    ]


def test_records_with_timestamps_and_a_joined_table() -> None:
    Path("flights.jsonl").write_text(
        '{"value": {"plane": "1", "at": "2026-01-01T10:00:30Z"}, "timestamp": 1767261640000}\n'
        '{"value": {"plane": "2", "at": "2026-01-01T10:00:59Z"}, "timestamp": 1767261640000}\n'
        '{"value": {"plane": "1", "at": "2025-01-01T10:00:30Z"}, "timestamp": 1767261640000}\n'
    )
    Path("planes.jsonl").write_text('{"key": "1", "value": {"maker": "A"}}\n')
    arguments = ("by-maker", "--input", "flights.jsonl", "--records")
    done = run(*arguments, "--table", "p=planes.jsonl")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        '{"key":"A","start":1767261600000,"value":1}',
        '{"key":"none","start":1767261600000,"value":1}',
    ]
    assert done.stderr == "record 3: at: late: more than 3600 s before the record's timestamp\n"
    done = run(*arguments)
    assert done.exit_code == 2
    assert "needs the records of table p. Name its file: --table NAME=FILE" in done.stderr


def test_it_explains_a_view() -> None:
    done = run("by-maker", "--explain")
    assert done.exit_code == 0
    for text in (
        "1. read flights: plane, at",
        "more than 3600 s late or more than 3600 s early",
        "join p: the newest row of its key in planes",
        "windows of 1m",
        "a row for each key and window, about 228 bytes and the key; freed by the watermark",
        "All records of flights and planes",
    ):
        assert text in done.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["turnover"], "Give --input FILE with records, or --explain."),
        (["plain", "--input", "orders.jsonl"], "no view plain with a table derive. It has: turn"),
        (["turnover", "--input", "none.jsonl"], "Cannot read none.jsonl: No such file"),
        (["turnover", "--input", "orders.jsonl", "--records"], "orders.jsonl, line 1: not an obj"),
        (
            ["turnover", "--input", "orders.jsonl", "--timestamp", "x"],
            "--timestamp x is not a",
        ),
        (["turnover", "--input", "orders.jsonl", "--table", "p"], "write --table NAME=FILE"),
        (
            ["turnover", "--input", "orders.jsonl", "--table", "p=orders.jsonl"],
            "not an object with",
        ),
        (["turnover", "--input", "orders.jsonl", "--views", "x.toml"], "Cannot read x.toml"),
        (["turnover", "--input", "orders.jsonl", "--expect", "views.toml"], "not JSON"),
    ],
)
def test_what_is_refused(arguments: list[str], reason: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert reason in done.stderr
