"""Look-ups in an index of a copy of a backend's data: seek, read the entries, parse them.

python -m bench.references.indexed FOLDER INDEX FORMAT NUMBERS LIMIT LOOK-UPS
python -m bench.references.indexed FOLDER size
"""

from __future__ import annotations

import json
import random
import sys
import time
from heapq import merge
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, cast

import orjson
from rocksdict import Rdict, ReadOptions

from bench.references.rocksdb import opened
from model.indexes.encoding import key_head, starts_with, stored_key_of
from model.kinds.layout import after
from model.records import ENTRY_HEAD_SIZE, INDEXES_KEY

_TEXT_END = b"\x00\x00"


def look_ups(
    folder: Path, index: str, texts: str, numbers: int, limit: int, count: int
) -> dict[str, float]:
    """Reads up to `limit` entries of `count` random texts, in the order of their keys. `texts`: a
    format with a number below `numbers`."""
    stores = opened(folder)
    heads = [_head(store, index) for store in stores]
    share = limit * 5 // (4 * len(stores)) + 8  # as an instance reads them
    times, rows = [], 0
    cpu = time.process_time()
    for _ in range(count):
        text = texts % random.randrange(numbers)
        began = time.perf_counter()
        rows += len(_look_up(stores, heads, text, limit, share))
        times.append(time.perf_counter() - began)
    cpu = time.process_time() - cpu
    if rows < count:
        sys.exit(f"{count} look-ups have found only {rows} entries")
    return {
        "rps": count / sum(times),
        "p50_ms": median(times) * 1e3,
        "cpu_us": cpu / count * 1e6,
        "rows": rows / count,
    }


def _head(store: Rdict, index: str) -> bytes:
    document = orjson.loads(cast(bytes, store[INDEXES_KEY]))
    return key_head(document["indexes"][index]["id"])


def _look_up(
    stores: list[Rdict], heads: list[bytes], text: str, limit: int, share: int
) -> list[bytes]:
    fields = starts_with(text).low + _TEXT_END
    entries = []
    for store, head in zip(stores, heads, strict=True):
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(after(head + fields))
        named = cast(Any, store.items(from_key=head + fields, read_opt=bounds))
        keys = [stored_key_of(key, size) for key, size in islice(named, share)]
        entries.append(zip(keys, cast(Any, store.get(cast(Any, keys))), strict=True))
    items = []
    for key, stored in islice(merge(*entries), limit):
        value = stored[ENTRY_HEAD_SIZE:]
        orjson.loads(value)
        items.append(b'{"key":%b,"value":%b}' % (orjson.dumps(key[1:].decode()), value))
    return items


def size(folder: Path) -> dict[str, float]:
    """The files of a view after a compaction of all of them, in MB."""
    total = 0
    for store in opened(folder):
        store.flush()
        store.compact_range(None, None)
        total += store.property_int_value("rocksdb.total-sst-files-size") or 0
    return {"disk_mb": total / 1e6}


if __name__ == "__main__":
    path, what, *arguments = sys.argv[1:]
    numbers = list(map(int, arguments[1:]))
    values = (
        size(Path(path)) if what == "size" else look_ups(Path(path), what, arguments[0], *numbers)
    )
    print(json.dumps(values))
