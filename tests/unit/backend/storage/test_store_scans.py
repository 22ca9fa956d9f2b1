"""Tests of scans of one store: complete, within their bounds, in both directions."""

import subprocess
import sys
from pathlib import Path

import pytest

from backend.storage.data_directory import DataDirectory

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
