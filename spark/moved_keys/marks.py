"""The file ``moved-keys.json`` in a view's checkpoint: the last search for moved keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from spark.checkpoints.files import CheckpointFiles
from spark.checkpoints.generations import query_folders
from spark.checkpoints.positions import Positions, positions_of
from spark.moved_keys.dependence import Dependence

_FILE = "moved-keys.json"


@dataclass(frozen=True, slots=True)
class Mark:
    """The last search for moved keys.

    ``query``: the folder of the view's query, which changes with a rebuild. ``partitions``: topic ►
    number of partitions at that search. ``since``: the view had written all records before these
    positions when the topics had these numbers, so only keys of later records can have moved.
    ``growing``: the greater numbers of partitions that the topics have had since. They are the same
    numbers if producers write keys to several partitions without an addition, and empty when this
    has ended. ``again_at``: when to search again (epoch s), because all producers know the new
    partitions then. ``moved``: topics whose moved keys the view cannot follow.
    """

    query: str
    dependence: Dependence
    partitions: Mapping[str, int]
    since: Positions = field(default_factory=dict)
    growing: Mapping[str, int] = field(default_factory=dict)
    again_at: float | None = None
    moved: tuple[str, ...] = ()

    @property
    def has_grown(self) -> bool:
        """Whether the topics have got more partitions since the search."""
        return bool(self.growing) and self.growing != self.partitions


def read_mark(files: CheckpointFiles, checkpoint: str) -> Mark | None:
    """The mark of a view. None if the job has not searched for moved keys since the view began, or
    since its rebuild. Also None if the file is damaged: then the job searches all records again."""
    try:
        mark = _from_json(json.loads(files.read(f"{checkpoint}/{_FILE}") or ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return mark if mark.query == query_folders(files, checkpoint).result else None


def write_mark(files: CheckpointFiles, checkpoint: str, mark: Mark) -> None:
    document = {**asdict(mark), "dependence": mark.dependence.value}
    files.replace_json(f"{checkpoint}/{_FILE}", document)


def _from_json(document: Mapping[str, Any]) -> Mark:
    return Mark(
        document["query"],
        Dependence(document["dependence"]),
        document["partitions"],
        positions_of(document["since"]),
        document["growing"],
        document["again_at"],
        tuple(document["moved"]),
    )
