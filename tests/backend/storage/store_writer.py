"""A process that writes a store partition until it is killed, and what it must have written.

    python -m tests.backend.storage.store_writer <data folder> [load]

writes batch after batch, from the stored position on, and prints each position once it is written.
"""

import random
import sys
from pathlib import Path

from backend.storage.data_directory import DataDirectory
from backend.storage.options import Tuning
from tests.support.in_process.examples import metadata

# memtables of 64 KiB: some of what was written lies in files, some in the log alone
TUNING = Tuning(write_buffer=64 << 10)
KEYS = [b"\x01key-%d" % i for i in range(300)]


def change_at(offset: int) -> tuple[bytes, bytes | None]:
    """The record at an offset: its key, and its value or None."""
    dice = random.Random(offset)
    key = dice.choice(KEYS)
    return key, None if dice.random() < 0.2 else b"%d:" % offset + dice.randbytes(200)


def batch_end(position: int) -> int:
    """Where the batch that begins at `position` ends."""
    return position + random.Random(-position).randint(1, 40)


def entries_at(position: int) -> dict[bytes, bytes]:
    """The reference model: what must be stored at a position."""
    entries: dict[bytes, bytes] = {}
    for offset in range(position):
        key, value = change_at(offset)
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
    return entries


def write_forever(root: Path, load: bool) -> None:
    store, anew = DataDirectory(root, TUNING).open("orders", 0)
    assert anew is None
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
