"""RocksDB alone: reads batches of random keys from a copy of a backend's folder, as JSON.

    python -m bench.references.many FOLDER KEYS BATCHES KEYS_PER_BATCH

Prints JSON: CPU time of a key (µs, all threads) and keys per second.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import orjson

from bench.records import PARTITIONS, key
from bench.references.stores import open_stores
from model.partitioner_numpy import partitions_of_batch
from model.records import ENTRY, ENTRY_HEAD_SIZE


def main(folder: Path, keys: int, batches: int, size: int) -> None:
    read = [store.get for store in open_stores(folder)]
    work: list[dict[int, list[bytes]]] = []
    for _ in range(batches):
        asked = [key(random.randrange(keys)) for _ in range(size)]
        by_partition: dict[int, list[bytes]] = {}
        for p, k in zip(partitions_of_batch("murmur2", asked, PARTITIONS), asked, strict=True):
            by_partition.setdefault(int(p), []).append(ENTRY + k)
        work.append(by_partition)
    cpu, wall = time.process_time(), time.perf_counter()
    made = 0
    for by_partition in work:
        items = [
            b'{"key":%b,"value":%b}' % (orjson.dumps(k[1:].decode()), stored[ENTRY_HEAD_SIZE:])
            for p, stored_keys in by_partition.items()
            for k, stored in zip(stored_keys, read[p](stored_keys), strict=True)  # type: ignore[arg-type]
        ]
        made += len(b",".join(items)) > 0 and len(items)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu_us": cpu / made * 1e6, "keys_s": made / wall}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
