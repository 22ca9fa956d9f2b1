"""Tests of scans of one store: complete, within their bounds, in both directions."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.storage.data_directory import DataDirectory
from model.problems import StoreClosedError

_SCAN = """
import os, sys
from pathlib import Path
from backend.storage.data_directory import DataDirectory
folder = DataDirectory(Path(sys.argv[1]))
store, _ = folder.open("v", 0)
batch = store.new_batch()
for number in range(3000):
    batch.put(b"\\1k%d" % number, os.urandom(1016))
    batch.put(b"\\2%b%d" % (bytes(10), number), b"")
store.write(batch, 3000)
store.close()
store, _ = folder.open("v", 0)
print(len(list(store.scan(b"\\2", b"\\2" + bytes(7) + b"\\1"))))
"""


@pytest.mark.slow
def test_a_scan_is_complete_even_if_memory_is_reused(tmp_path: Path) -> None:
    """RocksDB has a pointer to the bounds: if they were freed, the scan would end early. A separate
    process has the same heap in each run."""
    command = [sys.executable, "-c", _SCAN, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "3000\n"


@pytest.mark.parametrize("backwards", [False, True])
def test_a_scan_stays_within_its_bounds(tmp_path: Path, backwards: bool) -> None:
    folder = DataDirectory(tmp_path)
    store, _ = folder.open("v", 0)
    batch = store.new_batch()
    keys = [b"\x01%05d" % number for number in range(300)]
    for key in [b"\x00a", *keys, b"\x02z"]:
        batch.put(key, b"")
    store.write(batch, 1)
    for low, high, expected in (
        (b"\x01", b"\x02", keys),
        (keys[10], keys[13], keys[10:13]),
        (keys[10] + b"\0", keys[13] + b"\0", keys[11:14]),
        (keys[10], keys[10], []),
    ):
        found = [key for key, _ in store.scan(low, high, backwards)]
        assert found == (expected[::-1] if backwards else expected)
    store.close()
    folder.close()


class Ranges(list[tuple[bytes, bytes]]):
    """Calls `between` when the second range is begun."""

    def __init__(self, between: Callable[[], None]) -> None:
        super().__init__([(b"\x01a", b"\x01b"), (b"\x01b", b"\x01c")])
        self.between = between

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        yield self[0]
        self.between()
        yield self[1]


@pytest.mark.parametrize("backwards", [False, True])
def test_reads_are_of_one_moment(tmp_path: Path, backwards: bool) -> None:
    folder = DataDirectory(tmp_path)
    store, _ = folder.open("v", 0)
    writes = 0

    def write(*new: bytes) -> None:
        nonlocal writes
        writes += 1
        batch = store.new_batch()
        for key in new:
            batch.put(key, b"")
        batch.delete(b"\x01b1")
        store.write(batch, writes)

    write(b"\x01a1", b"\x01b2", b"\x01c")
    ranges = Ranges(lambda: write(b"\x01a2") if writes == 1 else None)
    get, scans = store.at_one_moment(ranges, backwards)
    write(b"\x01a3")
    found = [[key for key, _ in keys] for keys in scans]
    in_order = [b"\x01a1", b"\x01a2"]
    assert found == [in_order[::-1] if backwards else in_order, [b"\x01b2"]]
    assert (get(b"\x01a2"), get(b"\x01a3")) == (b"", None)
    store.close()
    with pytest.raises(StoreClosedError):
        store.at_one_moment(ranges)
    folder.close()


@pytest.mark.parametrize("backwards", [False, True])
def test_reads_are_of_one_moment_among_many_writes(tmp_path: Path, backwards: bool) -> None:
    """A key moves from one range to the other with each write, and others come and go."""
    folder = DataDirectory(tmp_path)
    store, _ = folder.open("v", 0)
    keys = [b"\x01a%03d" % number for number in range(100)]
    writes = 0

    def write() -> None:
        nonlocal writes
        writes += 1
        batch = store.new_batch()
        for key in keys:
            batch.put(key, b"%d" % writes)
        here, there = (b"\x01a5", b"\x01b5") if writes % 2 else (b"\x01b5", b"\x01a5")
        batch.put(here, b"%d" % writes)
        batch.delete(there)
        store.write(batch, writes)

    write()
    ranges = Ranges(write)
    get, scans = store.at_one_moment(ranges, backwards)
    assert 1 < writes < 100
    [moving] = {b"\x01a5", b"\x01b5"} - {key for key in (b"\x01a5", b"\x01b5") if get(key) is None}
    at = get(moving)
    write()
    entries = []
    for rows in zip(scans[0], keys if not backwards else keys[::-1], strict=False):
        entries.append(rows[0])
        write()
        assert get(keys[7]) == get(moving) == at  # between two entries of a scan
    entries += [*scans[0], *scans[1]]
    expected = [(key, at) for key in sorted([*keys, moving])]
    in_a, in_b = (
        [pair for pair in expected if pair[0].startswith(head)] for head in (b"\x01a", b"\x01b")
    )
    assert entries == ([*in_a[::-1], *in_b] if backwards else [*in_a, *in_b])
    assert get(b"\x01a1234") is None
    store.close()
    folder.close()
