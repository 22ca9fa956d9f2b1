"""Files of checkpoints on this machine, which Hadoop writes without other processes.

By default, Hadoop starts several processes for each file of a checkpoint (chmod, readlink), and
writes a checksum file next to it. Its ``RawLocalFileSystem`` does neither. But it cannot copy files
from and to this machine, as Spark does with RocksDB's files when it stores a snapshot of state:
Hadoop then asks its configuration for the file system of this machine, and fails with a
ClassCastException if that is not a ``LocalFileSystem``. So the configuration of the file system
itself, which only such copies use, names another class than that of Spark.

The copies run in the process that has the state, so this works if the driver runs all tasks.
"""

from __future__ import annotations

from typing import Any

_CLASS = "fs.file.impl"
_HADOOP = "org.apache.hadoop.fs"

SETTINGS = {
    f"spark.hadoop.{_CLASS}": f"{_HADOOP}.RawLocalFileSystem",
    # Only for file systems whose rename replaces a file, as POSIX's does.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def let_copy(jvm: Any, hadoop: Any) -> None:
    """Makes copies from and to this machine possible. ``hadoop``: Spark's Hadoop configuration, in
    which ``SETTINGS`` may have set the file system. Hadoop keeps one file system for the process.
    """
    files = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), hadoop)
    if files.getClass().getName() != SETTINGS[f"spark.hadoop.{_CLASS}"]:
        return
    own = jvm.org.apache.hadoop.conf.Configuration(files.getConf())
    own.set(_CLASS, f"{_HADOOP}.LocalFileSystem")
    own.setBoolean(f"{_CLASS}.disable.cache", True)
    files.setConf(own)
