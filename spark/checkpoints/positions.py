"""The positions of a query in its checkpoint: exact when the query does not run."""

from __future__ import annotations

import json

from spark.checkpoints.files import CheckpointFiles

Positions = dict[str, dict[int, int]]
"""Topic ► partition ► next offset."""

_VERSION, _METADATA = 1, 1  # lines of an entry before those of the sources
_NONE = "-"  # the line of a source that has no offset yet


def committed_positions(files: CheckpointFiles, folder: str) -> Positions:
    """The end offsets of the last micro-batch that was written completely; empty if there is none.
    ``folder``: the checkpoint folder of the query."""
    batches = [int(name) for name in files.names(f"{folder}/commits") if name.isdecimal()]
    entry = files.read(f"{folder}/offsets/{max(batches)}") if batches else None
    positions: Positions = {}
    for line in (entry or "").splitlines()[_VERSION + _METADATA :]:
        for topic, offsets in (json.loads(line) if line != _NONE else {}).items():
            positions[topic] = {int(partition): end for partition, end in offsets.items()}
    return positions
