"""Entries ► files in RocksDB's table format, sorted, with checksums."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pandas.util import hash_array
from rocksdict import SstFileWriter

from model.pushes.manifest import PushFile
from model.pushes.tables import table_options
from spark.batch.encoder import Entries, RowError

_CHUNK = 1 << 20
_SECOND_HASH_KEY = "queryable-topics"  # 16 characters; the first one is pandas' default


def write_file(path: Path, partition: int, entries: Entries) -> PushFile:
    """Sort the entries and write them to a new file. Raises RowError if a key occurs twice."""
    keys, order = _sorted(entries.keys)
    values = [entries.values[n] for n in order]
    _refuse_duplicates(keys)
    index, _ = _sorted(entries.index)
    writer = SstFileWriter(table_options())
    writer.open(str(path))
    put = writer.__setitem__
    # without a loop in Python: a put takes about 1 µs
    deque(map(put, keys, values), maxlen=0)
    for key in index:  # they sort after all entries
        put(key, b"")
    writer.finish()
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    entries.keys = keys
    return PushFile(
        partition=partition,
        name=path.name,
        size=path.stat().st_size,
        sha256=digest.hexdigest(),
        entries=len(keys),
        first=keys[0],
        last=keys[-1],
    )


def key_hashes(keys: Sequence[bytes]) -> bytes:
    """A hash of 128 bits of each key, to find keys that are in several files."""
    array = np.array(keys, dtype=object)
    columns = [
        hash_array(array, categorize=False),
        hash_array(array, hash_key=_SECOND_HASH_KEY, categorize=False),
    ]
    return np.stack(columns, axis=1).astype("<u8").tobytes()


def has_duplicates(hashes: Sequence[bytes]) -> bool:
    """Whether a key is in several files. `hashes`: the result of `key_hashes` for each file."""
    pairs = np.frombuffer(b"".join(hashes), dtype="<u8").reshape(-1, 2)
    ordered = pairs[np.argsort(pairs[:, 0], kind="stable")]
    same = np.flatnonzero(ordered[1:, 0] == ordered[:-1, 0])
    if not len(same):
        return False
    # the keys whose first hashes are equal: few
    candidates = np.unique(np.concatenate([same, same + 1]))
    candidate_pairs = [tuple(pair) for pair in ordered[candidates].tolist()]
    return len(set(candidate_pairs)) < len(candidate_pairs)


def _sorted(keys: list[bytes]) -> tuple[list[bytes], list[int]]:
    """The keys sorted by their bytes, and the index of each one in the unsorted list."""
    array = pa.array(keys, pa.large_binary())
    order = pc.sort_indices(array)
    return array.take(order).to_pylist(), order.to_pylist()


def _refuse_duplicates(keys: list[bytes]) -> None:
    before = None
    for key in keys:
        if key == before:
            raise duplicate_key(key)
        before = key


def duplicate_key(key: bytes | None = None) -> RowError:
    """The error for a key in several rows. `key`: the stored key, if it is known."""
    subject = "a key" if key is None else f"the key {key[1:]!r:.200}"
    return RowError(
        f"{subject} is in several rows, and an entry has one value. Aggregate the rows, or remove "
        "all but one of them (dropDuplicates keeps an arbitrary one)"
    )
