"""The file that keeps what is known of views over a restart of all instances."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.storage.findings import NAME, Finding, FindingsFile

FINDINGS = st.dictionaries(
    st.text(min_size=1),
    st.builds(
        Finding,
        st.text(),
        st.lists(st.integers(1, 10_000)).map(tuple),
        st.booleans(),
        st.integers(0, 2**32 - 1),
    ),
)


@given(st.lists(FINDINGS, min_size=1))
def test_the_last_findings_are_read(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, Finding]]
) -> None:
    folder = tmp_path_factory.mktemp("data")
    file = FindingsFile(folder)
    for findings in written:
        file.write(findings)
    assert FindingsFile(folder).read() == written[-1]


def test_without_findings_there_is_no_file(tmp_path: Path) -> None:
    file = FindingsFile(tmp_path)
    assert file.read() == {}
    file.write({})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 2, "views": {}}', '{"format": 1, "views": []}',
     '{"format": 1, "views": {"orders": {}}}', '{"format": 1, "views": {"orders": 1}}'],
)  # fmt: skip
def test_a_malformed_file_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    (tmp_path / NAME).write_text(text)
    file = FindingsFile(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert file.read() == {}
    assert NAME in caplog.text
    file.write({"orders": Finding("hash", (4, 6), False)})
    assert json.loads((tmp_path / NAME).read_text())["views"]["orders"]["built_partitions"] == 4


def test_an_older_version_wrote_the_smallest_count_alone(tmp_path: Path) -> None:
    FindingsFile(tmp_path).write({"orders": Finding("5f", (4, 6), True)})
    written = json.loads((tmp_path / NAME).read_text())
    del written["views"]["orders"]["partition_counts"]
    (tmp_path / NAME).write_text(json.dumps(written))
    assert FindingsFile(tmp_path).read() == {"orders": Finding("5f", (4,), True)}


def test_a_failure_to_write_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = FindingsFile(tmp_path / "missing")
    with caplog.at_level(logging.WARNING):
        file.write({"orders": Finding("hash", (4, 6), False)})
    assert "cannot write" in caplog.text


def test_findings_that_could_not_be_written_are_written_the_next_time(tmp_path: Path) -> None:
    root = tmp_path / "data"
    file = FindingsFile(root)
    findings = {"orders": Finding("5f", (4, 6), True)}
    file.write(findings)  # the folder is not there
    root.mkdir()
    file.write(findings)
    assert FindingsFile(root).read() == findings
