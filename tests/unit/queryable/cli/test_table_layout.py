"""Rows fit the terminal: as a table, or as records if a table would break words."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from queryable import BadUse
from queryable.cli import output
from queryable.cli.output import Output, RowOutput, print_table, write_rows
from queryable.cli.table_layout import column_widths, record_lines

FLIGHT = {
    "key": "N14228",
    "value": {
        "flight": "UA1481", "origin": "EWR", "dest": "DEN", "time": "2013-12-29T00:03:00Z",
        "carrier": "United Air Lines Inc.", "manufacturer": "BOEING-INDUSTRIES-OF-AMERICA",
        "comment": "a longer text of some words that goes on and on, and then ends at last",
    },
}  # fmt: skip
LONG = {"key": "k" * 70, "value": {"hash": "f" * 64, "n": 3}}


def words_of(row: dict[str, Any]) -> list[str]:
    return [word for cell in (row["key"], *row["value"].values()) for word in str(cell).split()]


@pytest.mark.parametrize("columns", [80, 100, 200])
@pytest.mark.parametrize("row", [FLIGHT, LONG])
def test_no_word_is_broken(
    row: dict[str, Any], columns: int, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table([row, row])
    shown = capsys.readouterr().out
    assert [word for word in words_of(row) if word not in shown] == []
    assert max(map(len, shown.splitlines())) <= columns
    assert ("─[ 2 ]" in shown) == (columns < 200 if row is FLIGHT else columns < 160)


def test_a_table_that_fits_stays_a_table() -> None:
    assert column_widths(["a", "b"], [["xx", "yyyy"]], 80) == [2, 4]
    # long columns share what is left
    long = "a text of several words that is too long for its column"
    assert column_widths(["a", "b", "c"], [["xx", long, long]], 80) == [2, 34, 34]
    # wrapped at spaces
    assert column_widths(["a", "b"], [["xx", "yyyy yyyy"]], 15) == [2, 6]
    assert column_widths(["a", "b"], [["xx", "y" * 12]], 15) is None
    assert column_widths(["a"], [["日本語"]], 10) == [6]
    # a long text would make a column of many lines
    assert column_widths(["a", "b"], [["x" * 20, "y " * 200]], 80) is None


def test_lines_of_a_record() -> None:
    assert record_lines(7, [("key", "a"), ("日本", "one two three four five"), ("b", "")], 24) == [
        "─[ 7 ]──────────────────",
        "key  │ a",
        "日本 │ one two three four",
        "     │ five",
        "b    │",
    ]


def csv_rows(rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    write_rows(rows, Output.CSV)
    return list(csv.reader(io.StringIO(capsys.readouterr().out)))


def test_csv(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"key": 'a,"b"\n', "value": {"key": 1, "n": None, "list": [1, "ä"]}},
        {"key": "c", "value": {"n": 2.5, "at": True}},
        {"key": b"\xff", "value": {}},
    ]
    assert csv_rows(rows, capsys) == [
        ["key", ".key", "n", "list", "at"],
        ['a,"b"\n', "1", "", '[1, "ä"]', ""],
        ["c", "", "2.5", "", "true"],
        ["_w", "", "", "", ""],
    ]
    assert csv_rows([{"key": "a", "start": 0, "value": 1}], capsys)[1] == [
        "a", "1970-01-01T00:00:00Z", "1",
    ]  # fmt: skip
    assert csv_rows([], capsys) == []


def test_csv_of_many_rows_keeps_every_field(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_MAX_TABLE_ROWS", 2)
    rows = [{"key": n, "value": {"a": n}} for n in range(3)]
    rows.append({"key": 3, "value": {"b": 3}})
    shown = csv_rows(rows, capsys)
    assert shown[0] == ["key", "a", "other"]
    assert shown[3] == ["2", "2", ""]
    assert (shown[4][:2], json.loads(shown[4][2])) == (["3", ""], {".b": 3})


def test_only_one_output_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RowOutput().chosen() is Output.JSON, "the output of tests is not a terminal"
    assert RowOutput(as_csv=True).chosen() is Output.CSV
    assert RowOutput(vertical=True).chosen() is Output.VERTICAL
    with pytest.raises(BadUse, match="only one of"):
        RowOutput(as_json=True, as_csv=True).chosen()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert RowOutput().chosen() is Output.TABLE
    assert RowOutput(as_json=True).chosen() is Output.JSON
