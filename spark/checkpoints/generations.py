"""The folders of a view's streaming queries, in the view's checkpoint folder.

Spark uploads the state of a query up to a minute after it was stopped. If the query began again in
the same folder, that folder would get the state of the stopped query. So a rebuild uses new
folders, whose number is in ``generation.json``. Rule: no folder is used again while the job runs.
"""

from __future__ import annotations

from typing import NamedTuple

from spark.checkpoints.files import CheckpointFiles

_FILE = "generation.json"
_RESULT = "view"
_DEAD_LETTERS = "dead-letters"


class QueryFolders(NamedTuple):
    """The folders with Spark's checkpoints of a view's queries."""

    result: str
    dead_letters: str


def query_folders(files: CheckpointFiles, checkpoint: str) -> QueryFolders:
    """The folders that are in use. ``checkpoint``: the view's folder."""
    return _folders(checkpoint, _number(files, checkpoint))


def begin_generation(files: CheckpointFiles, checkpoint: str) -> QueryFolders:
    """Switches the view to new folders, and returns them."""
    number = _number(files, checkpoint) + 1
    files.replace_json(f"{checkpoint}/{_FILE}", {"number": number})
    return _folders(checkpoint, number)


def delete_earlier(files: CheckpointFiles, checkpoint: str) -> None:
    """Deletes the folders that are no longer in use."""
    kept = query_folders(files, checkpoint)
    for name in files.names(checkpoint):
        path = f"{checkpoint}/{name}"
        if _is_query_folder(name) and path not in kept:
            files.delete(path)


def _number(files: CheckpointFiles, checkpoint: str) -> int:
    document = files.read_json(f"{checkpoint}/{_FILE}")
    return 0 if document is None else int(document["number"])


def _folders(checkpoint: str, number: int) -> QueryFolders:
    suffix = f"-{number}" if number else ""
    return QueryFolders(f"{checkpoint}/{_RESULT}{suffix}", f"{checkpoint}/{_DEAD_LETTERS}{suffix}")


def _is_query_folder(name: str) -> bool:
    if name in (_RESULT, _DEAD_LETTERS):
        return True
    kind, _, number = name.rpartition("-")
    return kind in (_RESULT, _DEAD_LETTERS) and number.isdecimal()
