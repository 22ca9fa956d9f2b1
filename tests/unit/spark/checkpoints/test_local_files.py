"""How the files of checkpoints are written: see docs/spark/state.md."""

from __future__ import annotations

import pytest

from spark.session import settings

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
RAW = "spark.hadoop.fs.file.impl"
LOCAL = "local[2]"


def is_direct(checkpoints: str, conf: dict[str, str] | None = None) -> bool:
    chosen = settings({"spark.master": LOCAL, **(conf or {})}, [], checkpoints=checkpoints)
    assert (MANAGER in chosen) == (RAW in chosen)
    return MANAGER in chosen


@pytest.mark.parametrize("path", [".run/checkpoints", "/var/lib/c", "file:///c", "file:/c"])
def test_files_of_this_machine_are_written_directly(path: str) -> None:
    assert is_direct(path)
    # executors may be on other machines, or copy files in another process
    for master in ("local-cluster[2,1,1024]", "spark://a:7077"):
        assert not is_direct(path, {"spark.master": master})


@pytest.mark.parametrize("path", ["hdfs:///c", "s3a://bucket/c", "viewfs:///c"])
def test_other_file_systems_keep_sparks_way(path: str) -> None:
    """Their rename may not replace a file."""
    assert not is_direct(path)


def test_a_path_without_a_scheme_may_be_of_another_file_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not is_direct("c", {"spark.hadoop.fs.defaultFS": "hdfs://a:8020"})
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert not is_direct("c")
    assert is_direct("c", {"spark.hadoop.fs.defaultFS": "file:///"})
    assert is_direct("file:///c")


def test_given_values_win() -> None:
    given = {MANAGER: "a.B", "spark.master": LOCAL}
    assert settings(given, [], checkpoints="c")[MANAGER] == "a.B"
