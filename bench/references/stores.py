"""Opens the store partitions in a copy of a backend's folder, with the backend's tuning."""

from __future__ import annotations

from pathlib import Path

from rocksdict import Rdict

from backend.storage.options import SharedMemory
from backend.storage.rocksdb_store import open_db
from bench.records import PARTITIONS, VIEW


def open_stores(folder: Path) -> list[Rdict]:
    """The stores, in the order of the partitions."""
    options = SharedMemory().options()
    return [open_db(folder / VIEW / str(partition), options) for partition in range(PARTITIONS)]
