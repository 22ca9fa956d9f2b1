"""The state of the database of one store partition."""

from __future__ import annotations

from typing import NamedTuple


class EngineState(NamedTuple):
    """What RocksDB says of the work that one store has left."""

    memtable_bytes: int
    level0_files: int
    pending_compaction_bytes: int
    writes_stopped: bool  # or delayed, until compaction catches up
