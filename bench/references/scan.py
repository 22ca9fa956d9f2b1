"""RocksDB alone: reads all entries of a copy of a backend's folder, partition by partition.

    python -m bench.references.scan FOLDER lines    formats each entry as a line of JSON
    python -m bench.references.scan FOLDER top      keeps the 100 greatest by `balance` in a heap

Prints JSON: entries, entries per second, CPU time of an entry (µs, all threads), seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from heapq import nlargest
from pathlib import Path
from typing import Any, cast

import orjson
from rocksdict import Rdict, ReadOptions

from bench.references.stores import open_stores
from model.records import ENTRY, ENTRY_HEAD_SIZE

_END = b"\x02"
_GREATEST = 100
_entries = 0


def _values(partitions: list[Rdict]) -> Iterator[tuple[bytes, bytes]]:
    global _entries
    for partition in partitions:
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(_END)
        for key, stored in cast(Any, partition.items(from_key=ENTRY, read_opt=bounds)):
            _entries += 1
            yield key, stored[ENTRY_HEAD_SIZE:]


def _lines(partitions: list[Rdict]) -> None:
    for key, value in _values(partitions):
        b'{"key":%b,"value":%b}\n' % (orjson.dumps(key[1:].decode()), value)


def _top(partitions: list[Rdict]) -> None:
    nlargest(
        _GREATEST,
        ((orjson.loads(value)["balance"], key, value) for key, value in _values(partitions)),
    )


def main(folder: Path, what: str) -> None:
    partitions = open_stores(folder)
    cpu, wall = time.process_time(), time.perf_counter()
    {"lines": _lines, "top": _top}[what](partitions)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(
        json.dumps(
            {
                "entries": _entries,
                "entries_s": _entries / wall,
                "cpu_us": cpu / _entries * 1e6,
                "seconds": wall,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
