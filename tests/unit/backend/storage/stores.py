"""Opens and fills stores, and damages files."""

from __future__ import annotations

import random
from pathlib import Path

from backend.storage.data_directory import DataDirectory
from backend.storage.rocksdb_store import RocksDBStore
from tests.support.in_process.examples import metadata


def open_store(folder: DataDirectory) -> RocksDBStore:
    store, reason = folder.open("orders", 0)
    assert reason is None
    return store


def value_of(i: int) -> bytes:
    """100 bytes that cannot be compressed."""
    return random.Random(i).randbytes(100)


def filled_store(folder: DataDirectory, entries: int = 3000) -> RocksDBStore:
    store = open_store(folder)
    store.initialise(0, metadata())
    batch = store.new_batch()
    for i in range(entries):
        batch.put(b"\x01%d" % i, value_of(i))
    store.write(batch, entries)
    return store


def first_file(path: Path, pattern: str) -> Path:
    return min(path.glob(pattern))


def flip_bits(path: Path, at: int, count: int = 8) -> None:
    """Invert all bits of `count` bytes, starting at byte `at`."""
    raw = bytearray(path.read_bytes())
    for i in range(count):
        raw[at + i] ^= 0xFF
    path.write_bytes(raw)
