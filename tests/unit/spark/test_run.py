"""The start of the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark import run
from spark.settings import Settings
from spark.sources import Kafka


def test_files_of_an_earlier_job_are_deleted_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they show its state and offsets until Spark has started."""
    progress, health = tmp_path / "progress.json", tmp_path / "health.json"
    for file in (progress, health):
        file.write_text('{"hosts": {"state": "running", "source_offsets": {"weblog": {"0": 7}}}}')
    found: list[Path] = []

    def start(*_: object) -> None:
        found.extend(tmp_path.iterdir())

    monkeypatch.setattr(run, "_run", start)
    monkeypatch.setattr(run, "end_spark", lambda: None)
    monkeypatch.setattr(run.StopSignal, "install", lambda _: None)
    run.run(Settings([], Kafka("127.0.0.1:9"), str(tmp_path), progress=progress, health=health))
    assert found == []
