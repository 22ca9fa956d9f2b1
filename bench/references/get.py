"""RocksDB alone: reads random keys from a copy of a backend's folder.

    python -m bench.references.get FOLDER KEYS GETS

Prints JSON: CPU time of a get (µs, all threads), gets per second, peak memory (MB).
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from pathlib import Path

from bench.records import PARTITIONS, key
from bench.references.stores import open_stores
from model.partitioner_numpy import partitions_of_batch
from model.records import ENTRY


def main(folder: Path, keys: int, gets: int) -> None:
    read = [store.get for store in open_stores(folder)]
    asked = [key(random.randrange(keys)) for _ in range(gets)]
    partitions = partitions_of_batch("murmur2", asked, PARTITIONS).tolist()
    work = [(read[p], ENTRY + k) for p, k in zip(partitions, asked, strict=True)]
    cpu, wall = time.process_time(), time.perf_counter()
    missing = 0
    for get, stored_key in work:
        if get(stored_key) is None:
            missing += 1
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if missing:
        sys.exit(f"{missing} of {gets} keys are missing")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"cpu_us": cpu / gets * 1e6, "rps": gets / wall, "rss_mb": peak}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
