"""RocksDB alone: reads a copy of a backend's folder, with the backend's tuning.

    python -m bench.references.rocksdb FOLDER get KEYS GETS       reads random keys
    python -m bench.references.rocksdb FOLDER many KEYS BATCHES SIZE
                                                  reads batches of random keys, as JSON
    python -m bench.references.rocksdb FOLDER lines   formats each entry as a line of JSON
    python -m bench.references.rocksdb FOLDER top     finds the 100 greatest by `balance`

Prints JSON: `rps` (keys or entries per second), `cpu_us` (CPU time of one, all threads), `seconds`,
and `rss_mb` (peak memory).
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from heapq import nlargest
from pathlib import Path
from typing import Any, cast

import orjson
from rocksdict import Rdict, ReadOptions

from backend.storage.options import SharedMemory
from backend.storage.rocksdb_store import open_db
from bench.records import PARTITIONS, key
from model.partitioner_numpy import partitions_of_batch
from model.records import ENTRY, ENTRY_HEAD_SIZE

_END = b"\x02"
_GREATEST = 100
_seen = 0  # entries

Work = Callable[[], int]
"""Does the measured work; returns the number of keys or entries."""


def get(stores: list[Rdict], keys: int, gets: int) -> Work:
    keys_read = [key(random.randrange(keys)) for _ in range(gets)]
    partitions = partitions_of_batch("murmur2", keys_read, PARTITIONS).tolist()
    read = [store.get for store in stores]
    work = [(read[p], ENTRY + k) for p, k in zip(partitions, keys_read, strict=True)]

    def run() -> int:
        missing = 0
        for get, stored_key in work:
            if get(stored_key) is None:
                missing += 1
        if missing:
            sys.exit(f"{missing} of {gets} keys are missing")
        return gets

    return run


def many(stores: list[Rdict], keys: int, batches: int, size: int) -> Work:
    work: list[dict[int, list[bytes]]] = []
    for _ in range(batches):
        keys_read = [key(random.randrange(keys)) for _ in range(size)]
        by_partition: dict[int, list[bytes]] = {}
        partitions = partitions_of_batch("murmur2", keys_read, PARTITIONS)
        for p, k in zip(partitions, keys_read, strict=True):
            by_partition.setdefault(int(p), []).append(ENTRY + k)
        work.append(by_partition)
    read = [store.get for store in stores]

    def run() -> int:
        count = 0
        for by_partition in work:
            items = [
                b'{"key":%b,"value":%b}' % (orjson.dumps(k[1:].decode()), stored[ENTRY_HEAD_SIZE:])
                for p, stored_keys in by_partition.items()
                for k, stored in zip(stored_keys, read[p](stored_keys), strict=True)  # type: ignore[arg-type]
            ]
            count += len(b",".join(items)) > 0 and len(items)
        return count

    return run


def _entries(stores: list[Rdict]) -> Iterator[tuple[bytes, bytes]]:
    global _seen
    for store in stores:
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(_END)
        for stored_key, stored in cast(Any, store.items(from_key=ENTRY, read_opt=bounds)):
            _seen += 1
            yield stored_key[1:], stored[ENTRY_HEAD_SIZE:]


def lines(stores: list[Rdict]) -> int:
    for name, value in _entries(stores):
        b'{"key":%b,"value":%b}\n' % (orjson.dumps(name.decode()), value)
    return _seen


def top(stores: list[Rdict]) -> int:
    entries = _entries(stores)
    nlargest(_GREATEST, ((orjson.loads(value)["balance"], name, value) for name, value in entries))
    return _seen


def iterate(stores: list[Rdict]) -> int:
    for _ in _entries(stores):
        pass
    return _seen


def parse(stores: list[Rdict]) -> int:
    for _, value in _entries(stores):
        orjson.loads(value)
    return _seen


def opened(folder: Path) -> list[Rdict]:
    """The stores of all partitions of a view."""
    options = SharedMemory().options()
    return [open_db(folder / str(number), options) for number in range(PARTITIONS)]


def main(folder: Path, what: str, *numbers: int) -> None:
    stores = opened(folder)
    prepare: dict[str, Callable[..., Work]] = {"get": get, "many": many}
    scans = {"lines": lines, "top": top, "iterate": iterate, "parse": parse}
    run = partial(scans[what], stores) if what in scans else prepare[what](stores, *numbers)
    cpu, wall = time.process_time(), time.perf_counter()
    count = run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    values = {"rps": count / wall, "cpu_us": cpu / count * 1e6, "seconds": wall, "rss_mb": peak}
    print(json.dumps(values))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
