"""A view whose checkpoint is new, and whose topic is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from model.pipelines.commands import REBUILD
from tests.support.spark.controlled import ControlledRunner

WARNING = "is new, and"


def test_a_lost_checkpoint_is_logged_and_a_rebuild_deletes_what_has_no_value(
    runner: ControlledRunner, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runner.write(b"one two", b"one")
    with runner.stream():
        runner.wait_counts(one=2, two=1)
    with runner.stream():
        runner.wait_state("running")
    assert WARNING not in capfd.readouterr().err
    runner.truncate(1)
    runner.settings = replace(runner.settings, checkpoint_dir=str(tmp_path / "another"))
    with runner.stream():
        runner.wait_counts(one=1, two=1)
        assert f"the checkpoint of {runner.view.name} {WARNING}" in capfd.readouterr().err
        runner.send(REBUILD)
        runner.wait_counts(one=1, two=0)
        runner.wait_rebuilt()
