"""Positions in topics, and those of a query in its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping

from spark.checkpoints.files import CheckpointFiles

Positions = dict[str, dict[int, int]]
"""Topic ► partition ► next offset."""

_VERSION, _METADATA = 1, 1  # lines of an entry before those of the sources
_NONE = "-"  # the line of a source that has no offset yet


def positions_of(document: Mapping[str, Mapping[str, int]]) -> Positions:
    """The positions in a JSON document, where partitions are texts."""
    return {
        topic: {int(partition): offset for partition, offset in offsets.items()}
        for topic, offsets in document.items()
    }


def committed_positions(files: CheckpointFiles, folder: str) -> Positions:
    """The end offsets of the last micro-batch that was written completely; empty if there is none.
    They are exact while the query does not run. ``folder``: the checkpoint folder of the query."""
    batches = [int(name) for name in files.names(f"{folder}/commits") if name.isdecimal()]
    entry = files.read(f"{folder}/offsets/{max(batches)}") if batches else None
    positions: Positions = {}
    for line in (entry or "").splitlines()[_VERSION + _METADATA :]:
        if line != _NONE:
            positions |= positions_of(json.loads(line))
    return positions
