"""The store partitions of a copy of a backend's folder, with the tuning that the backend has."""

from __future__ import annotations

from pathlib import Path

from rocksdict import Rdict

from backend.storage.options import SharedMemory
from bench.records import PARTITIONS, VIEW


def open_stores(folder: Path) -> list[Rdict]:
    """In the order of the partitions."""
    options = SharedMemory().options()
    # unless the family is named, its options are those that the files tell: without the cache
    return [
        Rdict(str(folder / VIEW / str(partition)), options, {"default": options})
        for partition in range(PARTITIONS)
    ]
