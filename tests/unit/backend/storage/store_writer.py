"""A process that writes to a store until it is killed, and the entries that it must have written.

    python -m tests.unit.backend.storage.store_writer <data folder> [load]

writes batch after batch, starting at the stored position, and prints the position after each one.
"""

import random
import sys
from pathlib import Path

from backend.storage.data_directory import DataDirectory
from backend.storage.options import Tuning
from tests.support.in_process.examples import metadata

# with memtables of 64 KiB, some entries are in files, others only in the write-ahead log
TUNING = Tuning(write_buffer=64 << 10)
KEYS = [b"\x01key-%d" % i for i in range(300)]


def change_at(offset: int) -> tuple[bytes, bytes | None]:
    """The key and the value of the record at an offset; None deletes the key."""
    rng = random.Random(offset)
    key = rng.choice(KEYS)
    return key, None if rng.random() < 0.2 else b"%d:" % offset + rng.randbytes(200)


def batch_end(position: int) -> int:
    """The position after the batch that starts at `position`."""
    return position + random.Random(-position).randint(1, 40)


def entries_at(position: int) -> dict[bytes, bytes]:
    """The entries that must be stored at a position."""
    entries: dict[bytes, bytes] = {}
    for offset in range(position):
        key, value = change_at(offset)
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
    return entries


def write_forever(root: Path, load: bool) -> None:
    store, reason = DataDirectory(root, TUNING).open("orders", 0)
    assert reason is None
    if store.metadata is None:
        store.initialise(0, metadata())
    if load:
        store.begin_bulk_load(until=sys.maxsize)
    while True:
        position = store.position or 0
        end = batch_end(position)
        batch = store.new_batch()
        for offset in range(position, end):
            key, value = change_at(offset)
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        store.write(batch, end)
        print(end, flush=True)


if __name__ == "__main__":
    write_forever(Path(sys.argv[1]), load="load" in sys.argv[2:])
