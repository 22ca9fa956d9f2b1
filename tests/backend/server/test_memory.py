"""Tests that all threads share a bounded number of malloc arenas."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Threads that allocate at the same time; malloc_info then reports the number of heaps.
_PROGRAM = """
import ctypes, sys, threading
from backend.server.memory import limit_arenas

if sys.argv[2] == "bounded":
    assert limit_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
libc.free.argtypes = libc.fclose.argtypes = [ctypes.c_void_p]
barrier = threading.Barrier(12)

def work():
    barrier.wait()
    libc.free(libc.malloc(1000))
    barrier.wait()

threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
report = libc.fopen(sys.argv[1].encode(), b"w")
libc.malloc_info(0, ctypes.c_void_p(report))
libc.fclose(report)
print(open(sys.argv[1]).read().count("<heap nr="))
"""


def heaps(path: str, mode: str) -> int:
    """The number of heaps that malloc_info reports."""
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM, path, mode],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return int(result.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_threads_share_two_arenas(tmp_path: object) -> None:
    assert heaps(f"{tmp_path}/free", "free") > 2
    assert heaps(f"{tmp_path}/bounded", "bounded") <= 2
