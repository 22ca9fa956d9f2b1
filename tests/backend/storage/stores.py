"""Store partitions with some entries."""

from __future__ import annotations

import random
from pathlib import Path

from backend.storage.data_directory import DataDirectory
from backend.storage.rocksdb_store import RocksDBStore
from tests.support.in_process.examples import metadata


def opened(folder: DataDirectory) -> RocksDBStore:
    store, anew = folder.open("orders", 0)
    assert anew is None
    return store


def value_of(i: int) -> bytes:
    """100 bytes that nobody compresses."""
    return random.Random(i).randbytes(100)


def filled(folder: DataDirectory, entries: int = 3000) -> RocksDBStore:
    store = opened(folder)
    store.initialise(0, metadata())
    batch = store.new_batch()
    for i in range(entries):
        batch.put(b"\x01%d" % i, value_of(i))
    store.write(batch, entries)
    return store


def one(path: Path, pattern: str) -> Path:
    return min(path.glob(pattern))


def flip(path: Path, at: int, count: int = 8) -> None:
    raw = bytearray(path.read_bytes())
    for i in range(count):
        raw[at + i] ^= 0xFF
    path.write_bytes(raw)
