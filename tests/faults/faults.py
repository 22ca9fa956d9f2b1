"""Faults of files, disks and clocks. Those of processes: `tests.support.backends`; of networks:
`tests.support.tcp_faults`."""

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
_LEFT = 4096  # bytes that stay as they are at both ends of a damaged file


class NotHere(Exception):
    """This machine, or this user, cannot do it: the scenario is skipped, and says why."""


class Clock:
    """The wall clock of processes that are started with `environment`."""

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
        """To so many seconds after (before, if negative) the machine's own."""
        packed = struct.pack("<q", int(seconds * 1e9))
        if not self._path.exists():
            self._path.write_bytes(packed)
        with self._path.open("r+b", buffering=0) as file:
            file.write(packed)


@contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[None]:
    """A file system of its own at `folder`; NotHere without the right to mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs"]
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        raise NotHere("a small disk is a tmpfs, and to mount one takes root")
    done = subprocess.run(
        [mount, *options, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotHere(f"no tmpfs can be mounted: {done.stderr.strip()}")
    try:
        yield
    finally:
        # lazily: a process that was killed may not be gone yet
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_disk(folder: Path) -> Path:
    """Takes all that is left of the file system of `folder`; the file to be deleted."""
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
    """Other bytes in the middle of a file, or everywhere if it is small; its size stays."""
    size = file.stat().st_size
    left = _LEFT if size > 4 * _LEFT else 0
    with file.open("r+b") as opened:
        opened.seek(left)
        opened.write(b"\xa5" * (size - 2 * left))


def largest(folder: Path, pattern: str) -> Path:
    """The largest file of that name in `folder`; ValueError if there is none."""
    return max(folder.glob(pattern), key=lambda path: path.stat().st_size)


def other_version(folder: Path) -> Path:
    """A copy of the backend that speaks another version of the map; the folder to start it in."""
    for package in ("backend", "model"):
        shutil.copytree(REPOSITORY / package, folder / package)
    module = folder / "model" / "topology.py"
    source = module.read_text()
    [line] = [line for line in source.splitlines() if line.startswith("VERSION = ")]
    number = int(line.removeprefix("VERSION = "))
    module.write_text(source.replace(line, f"VERSION = {number + 1}", 1))
    return folder
