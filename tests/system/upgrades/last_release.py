"""The last release, from the history of this repository: its wheel, unpacked.

Tests of upgrades run it next to the current code. After each release, change LAST_RELEASE.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from local.settings import REPOSITORY

LAST_RELEASE = "52b99438682d6eaa521d5a4fc4de2cfe3e98e25b"


def has_history(repository: Path = REPOSITORY) -> bool:
    """Whether the release is in the history: not in a shallow clone, or without git's folder."""
    shown = [*_git(repository), "cat-file", "-e", f"{LAST_RELEASE}^{{commit}}"]
    return subprocess.run(shown, capture_output=True).returncode == 0


def _git(repository: Path) -> list[str]:
    return ["git", "-C", str(repository), "-c", f"safe.directory={repository}"]


@dataclass(frozen=True)
class Release:
    """`code`: the folder of its packages, for PYTHONPATH. `proxy_files`: that with nginx.conf and
    proxy/."""

    code: Path
    proxy_files: Path


def unpacked(folder: Path, repository: Path = REPOSITORY, commit: str = LAST_RELEASE) -> Release:
    """Builds the wheel of the release, without the network, and unpacks it in `folder`.

    AssertionError if the history of `repository` does not have the commit.
    """
    source, code = folder / "source", folder / "code"
    archive = folder / "source.tar"
    found = subprocess.run(
        [*_git(repository), "archive", f"--output={archive}", commit],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, (
        f"the last release, commit {commit}, is not in the history of {repository}: "
        f"{found.stderr.strip()}. Tests of upgrades need a clone with the whole history "
        "(git fetch --unshallow)."
    )
    with tarfile.open(archive) as tar:
        tar.extractall(source, filter="data")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    built = subprocess.run(
        [*pip, *offline, "--wheel-dir", str(folder), str(source)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(code)
    [data] = code.glob("*.data/data/share/queryable-topics")
    return Release(code, data)
