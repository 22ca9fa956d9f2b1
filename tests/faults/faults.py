"""Faults of files, disks and clocks. `tests.support.backends` has those of processes, and
`tests.support.tcp_faults` those of networks."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.settings import REPOSITORY

_CLOCK_FOLDER = Path(__file__).with_name("clock")
_INTACT = 4096  # bytes at both ends of a damaged file that are not changed


class Unsupported(Exception):
    """This machine or user cannot inject the fault: the scenario is skipped, with the reason."""


class Clock:
    """The wall clock of processes that have `environment`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.jump(0.0)

    @property
    def environment(self) -> dict[str, str]:
        paths = [str(_CLOCK_FOLDER), os.environ.get("PYTHONPATH", "")]
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "FAULTS_CLOCK": str(self._path),
        }

    def jump(self, seconds: float) -> None:
        """Sets the clock `seconds` after (before, if negative) the machine's own."""
        packed = struct.pack("<q", int(seconds * 1e9))
        if not self._path.exists():
            self._path.write_bytes(packed)
        with self._path.open("r+b", buffering=0) as file:
            file.write(packed)


@contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[None]:
    """Mounts a file system at `folder`; Unsupported without the permission to mount."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs"]
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        raise Unsupported("a small disk is a tmpfs, and only root can mount it")
    done = subprocess.run(
        [mount, *options, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unsupported(f"cannot mount a tmpfs: {done.stderr.strip()}")
    try:
        yield
    finally:
        # lazily, because a killed process may still be ending
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_disk(folder: Path) -> Path:
    """Fills the file system of `folder`; returns the file to delete afterwards."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return filler


def damage(file: Path) -> None:
    """Overwrites the middle of a file, or all of it if it is small. Its size does not change."""
    size = file.stat().st_size
    intact = _INTACT if size > 4 * _INTACT else 0
    with file.open("r+b") as opened:
        opened.seek(intact)
        opened.write(b"\xa5" * (size - 2 * intact))


def largest(folder: Path, pattern: str) -> Path:
    """The largest file in `folder` that matches `pattern`; ValueError if there is none."""
    return max(folder.glob(pattern), key=lambda path: path.stat().st_size)


def other_version(folder: Path) -> Path:
    """Copies the backend, with another version of the group's user data; returns the folder."""
    for package in ("backend", "model"):
        shutil.copytree(REPOSITORY / package, folder / package)
    module = folder / "model" / "topology.py"
    source = module.read_text()
    [line] = [line for line in source.splitlines() if line.startswith("VERSION = ")]
    number = int(line.removeprefix("VERSION = "))
    module.write_text(source.replace(line, f"VERSION = {number + 1}", 1))
    return folder
