"""Tests that each way to start an instance asks for huge pages, and that the C library does so."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from local.stack.services import HUGE_PAGES

ROOT = Path(__file__).parents[3]
ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")

# the flags of the memory region that has the first bytes of a block of malloc
_PROGRAM = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
at = libc.malloc(100_000)
inside = False
for line in open("/proc/self/smaps"):
    first = line.split()[0]
    if "-" in first and not first.endswith(":"):
        low, high = (int(each, 16) for each in first.split("-"))
        inside = low <= at < high
    elif inside and first == "VmFlags:":
        print(line)
"""


@pytest.mark.parametrize("file", ["docker/Dockerfile", "deploy/systemd/queryable-backend@.service"])
def test_instances_are_started_with_huge_pages(file: str) -> None:
    [(name, value)] = HUGE_PAGES.items()
    [found] = re.findall(rf"^(?:ENV |Environment=){name}=(\S+)$", (ROOT / file).read_text(), re.M)
    assert found == value


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
@pytest.mark.skipif(
    not ENABLED.exists() or "[madvise]" not in ENABLED.read_text(),
    reason="the kernel does not leave it to processes whether they have huge pages",
)
@pytest.mark.parametrize("is_asked", [False, True])
def test_the_c_library_asks_for_huge_pages(is_asked: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in HUGE_PAGES}
    if is_asked:
        environment |= HUGE_PAGES
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("hg" in done.stdout.split()) == is_asked
