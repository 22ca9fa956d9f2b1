"""Tests of the memory of the C library."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas"
)

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


@needs_glibc
def test_threads_share_two_arenas(tmp_path: object) -> None:
    assert heaps(f"{tmp_path}/free", "free") > 2
    assert heaps(f"{tmp_path}/bounded", "bounded") <= 2


# Allocates blocks of 1 KiB, and frees all but every 64th. So the end of an arena is never free.
_FREES = """
import ctypes
from pathlib import Path
from backend.server.memory import release_free_memory

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
blocks = [libc.malloc(1024) for _ in range(100 * 1024)]
for block in blocks: ctypes.memset(block, 1, 1024)
for i, block in enumerate(blocks):
    if i % 64: libc.free(block)
before = resident_mb()
release_free_memory()
print(before - resident_mb())
"""


@needs_glibc
def test_free_memory_is_released() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _FREES], capture_output=True, text=True, check=True, timeout=30
    )
    assert int(result.stdout) > 50
