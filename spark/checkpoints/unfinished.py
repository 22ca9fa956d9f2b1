"""Repairs the checkpoint of a query that was ended while it wrote its first file.

Spark writes a file of a log under a temporary name, and renames it. It does not start a query
without a batch if the query's log folders have any file
(`spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart`): the state could come from batches
that are lost. A temporary file is not a batch.
"""

from __future__ import annotations

import re

from spark.checkpoints.files import CheckpointFiles

# the name that Spark's CheckpointFileManager uses, `.NAME.UUID.tmp`, and Hadoop's checksum file
_TEMPORARY = re.compile(r"\.?\.\d+\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp(\.crc)?")


def delete_unfinished(files: CheckpointFiles, folder: str) -> None:
    """Deletes the temporary files of a query that has no batch. ``folder``: its checkpoint. Call it
    while the query does not run."""
    offsets = f"{folder}/offsets"
    names = files.names(offsets)
    if all(map(_TEMPORARY.fullmatch, names)):
        for name in names:
            files.delete(f"{offsets}/{name}")
