"""The state of the database of one store partition."""

from __future__ import annotations

from typing import NamedTuple


class EngineState(NamedTuple):
    """The work that one store has left, as RocksDB reports it."""

    memtable_bytes: int
    level0_files: int
    pending_compaction_bytes: int
    writes_stopped: bool  # whether writes are stopped or delayed until compaction catches up
