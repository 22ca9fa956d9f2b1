"""The commands that write archives of classes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

import local.kafka.archive
import spark.archive


@pytest.mark.parametrize("archive", [spark.archive, local.kafka.archive], ids=["spark", "kafka"])
@pytest.mark.parametrize(("argument", "status"), [("--help", 0), ("--force", 2), ("spark.jsa", 2)])
def test_arguments_do_not_delete_the_archive(
    archive: ModuleType,
    argument: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "spark.jsa"
    file.write_text("classes")
    monkeypatch.setattr(archive, "ARCHIVE", file)
    monkeypatch.setattr(sys, "argv", ["archive", argument])
    with pytest.raises(SystemExit) as raised:
        archive.main()
    assert raised.value.code == status
    assert file.read_text() == "classes"
