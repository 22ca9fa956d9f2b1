"""Spark stores snapshots of state in a checkpoint folder on this machine."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession


def test_files_are_copied_to_and_from_a_checkpoint_without_checksum_files(
    session: SparkSession, tmp_path: Path
) -> None:
    """As Spark does with RocksDB's files. Without a snapshot, a view reads all changes of its state
    again when it starts, and after some minutes Spark stops it."""
    assert session._jvm is not None
    path = session._jvm.org.apache.hadoop.fs.Path
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    files = path(str(tmp_path)).getFileSystem(hadoop)
    assert files.getClass().getSimpleName() == "RawLocalFileSystem"  # starts no processes
    (tmp_path / "a.sst").write_bytes(b"rows")
    files.copyFromLocalFile(path(str(tmp_path / "a.sst")), path(str(tmp_path / "stored")))
    files.copyToLocalFile(path(str(tmp_path / "stored")), path(str(tmp_path / "b.sst")))
    assert (tmp_path / "b.sst").read_bytes() == b"rows"
    assert not (tmp_path / ".stored.crc").exists()
