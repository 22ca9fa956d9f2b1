"""The output of commands: rows, documents and numbers."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from typing import Any

import pytest
from rich.bar import Bar
from rich.console import Console

from model.formats.format import WrittenJson
from queryable import View
from queryable.cli.commands.append import _value
from queryable.cli.commands.top import number_at
from queryable.cli.commands.topology import tables
from queryable.cli.commands.watch import differences as changes
from queryable.cli.exit_codes import print_stderr
from queryable.cli.output import Output, bars, print_table, sparkline, write_rows
from queryable.cli.topology_document import differences, ranges
from queryable.cli.values import cell_text, iso_time
from queryable.client.protocol.errors import BadUse
from tests.support.clients.scripted_transport import ORDERS


def test_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([1, 2, 3, 8]) == "▁▂▃█"
    assert sparkline([5, 5]) == "▄▄"
    assert sparkline([1, math.nan, 8, math.inf]) == "▁█"
    assert sparkline([0, 0, 9, 9, 0, 0], width=3) == "▁█▁"
    assert len(sparkline(range(1000), width=80)) == 80


def test_iso_times() -> None:
    assert iso_time(1356998400000) == "2013-01-01T00:00:00Z"
    assert iso_time(1356998400005) == "2013-01-01T00:00:00.005Z"
    assert iso_time(-1) == "1969-12-31T23:59:59.999Z"
    assert iso_time(None) is None
    assert iso_time(2**63 - 1) == str(2**63 - 1)


def test_control_characters_and_markup_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert cell_text("a\x1b[2Jb\n\x9b") == r"a\x1b[2Jb\x0a\x9b"
    print_table([{"key": "[red]x[/red]", "value": [":smile:"]}])
    written = capsys.readouterr().out
    assert "[red]x[/red]" in written
    assert '[":smile:"]' in written
    print_table([])
    assert capsys.readouterr().out == ""


def test_bars_start_at_zero() -> None:
    assert bars([]) == []
    assert bars([0.0, 0.0]) == ["", ""]
    up, none, down = bars([30.0, math.inf, -10.0])
    assert isinstance(up, Bar)
    assert isinstance(down, Bar)
    assert none == ""
    assert (up.size, up.begin, up.end) == (40.0, 10.0, 40.0)
    assert (down.begin, down.end) == (0.0, 10.0)
    assert number_at({"a": {"b": 3}}, "a.b") == 3.0
    assert number_at(4, None) == 4.0
    assert number_at(10**400, None) == math.inf
    assert number_at(-(10**400), None) == -math.inf


def test_newline_of_a_value_file_is_kept_for_strings_and_bytes(tmp_path: Any) -> None:
    file = tmp_path / "value"
    file.write_bytes(b"17\n")

    def read(kind: str) -> Any:
        return _value(None, str(file), View.from_json({**ORDERS, "value": kind}))

    assert (read("int64"), read("json")) == (17, WrittenJson("17"))
    assert (read("string"), read("bytes")) == ("17\n", b"17\n")
    file.write_bytes(b"\xff\n")
    assert read("bytes") == b"\xff\n"
    with pytest.raises(BadUse, match="Cannot read"):
        _value(None, str(tmp_path / "nothing"), View.from_json(ORDERS))


def test_differences_of_two_scans() -> None:
    before = {"a": 1, "b": {"x": 1}, "c": math.nan, "gone": 0}
    after = {"a": 1, "b": {"x": True}, "c": math.nan, "d": None}
    found = [(each.kind, each.key, each.value) for each in changes(before, after)]
    assert found == [("changed", "b", {"x": True}), ("new", "d", None), ("deleted", "gone", None)]


def test_partition_ranges() -> None:
    assert ranges([]) == ""
    assert ranges([7, 0, 1, 2]) == "0-2 7"
    assert ranges([0, 2, 3]) == "0 2-3"


def document(*instances: tuple[str, str, list[int], list[int]]) -> dict[str, Any]:
    processors = [
        {"id": id_, "host": "h", "port": 1, "state": state, "topicPartitions": {"v": active},
         "standbyPartitions": {"v": standby}}
        for id_, state, active, standby in instances
    ]  # fmt: skip
    return {"epoch": "1-1", "views": {"v": {"partitions": 4}}, "processors": processors}


BEFORE = document(("b1", "running", [0, 1], [2]), ("b2", "running", [2, 3], [0, 1]))
AFTER = document(("b1", "draining", [0], [2]), ("b3", "running", [1, 2], [0]))


def test_differences_of_two_topologies() -> None:
    assert list(differences(BEFORE, BEFORE)) == []
    assert list(differences(BEFORE, AFTER)) == [
        "b1: running ► draining",
        "b3 joined, running",
        "b2 left",
        "v 0: b1 (b2) ► b1 (b3)",
        "v 1: b1 (b2) ► b3",
        "v 2: b2 (b1) ► b3 (b1)",
        "v 3: b2 ► no active",
    ]
    without = {**BEFORE, "views": {}}
    assert list(differences(BEFORE, without)) == ["view v was removed"]
    assert list(differences(without, BEFORE)) == ["view v was added"]


def test_topology_as_tables() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(tables(AFTER))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [[cell.strip() for cell in line.split("│")] for line in written.splitlines()]
    assert ["", "b1", "h:1", "draining", "v", "0", "2", "", ""] in lines
    assert ["", "v", "0", "b1 (draining)", "b3", ""] in lines
    # in a narrow terminal nothing is cut off
    narrow = Console(file=io.StringIO(), width=66)
    narrow.print(tables(AFTER))
    written = narrow.file.getvalue()  # type: ignore[attr-defined]
    lines = [[cell.strip() for cell in line.split("│")] for line in written.splitlines()]
    assert ["", "b1", "draining", "v", "0", "2", "", ""] in lines
    assert ["", "h:1", "", "", "", "", "", ""] in lines
    assert "…" not in written
    assert ["", "", "3", "none", "", ""] in lines


ODD = "a\x1b[2Jb\x9b\x7f\r\nc"


def test_json_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows([{"key": ODD, "value": {ODD: 1}}], Output.JSON)
    written = capsys.readouterr().out
    assert json.loads(written) == {"key": ODD, "value": {ODD: 1}}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", written)
    assert written.count("\n") == 1


@pytest.mark.parametrize("is_terminal", [True, False])
def test_csv_on_a_terminal_has_no_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    write_rows([{"key": ODD, "value": {"x\x1by": "a,\tb"}}], Output.CSV)
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out, newline="")))
    if is_terminal:
        shown = "a\\x1b[2Jb\\x9b\\x7f\\x0d\nc"
        assert rows == [["key", "x\\x1by"], [shown, "a,\tb"]]
    else:  # a program gets the texts as they are
        assert rows == [["key", "x\x1by"], [ODD, "a,\tb"]]


def test_messages_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_stderr(f"not found: {ODD}")
    assert capsys.readouterr().err == "not found: a\\x1b[2Jb\\x9b\\x7f\\x0d\nc\n"
