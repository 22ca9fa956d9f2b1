"""The folder of a view's pushes, in any file system that fsspec supports."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from model.pushes.file_systems import open_folder
from model.pushes.manifest import (
    CURRENT,
    MANIFEST,
    MAX_CURRENT_BYTES,
    Manifest,
    ManifestError,
    decode_current,
    encode_current,
)
from spark.errors import JobError

log = logging.getLogger(__name__)

_TIME = "%Y%m%dT%H%M%S.%f"
_UNFINISHED_FOR = timedelta(days=7)  # a folder without a manifest is deleted after this time
_LOCAL = "file"


def new_id() -> str:
    """The id of a new push. Ids sort by time."""
    return f"{datetime.now(UTC):{_TIME}}Z-{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class PushFolder:
    """A push in the folder of a view's pushes. It is pickled with Spark's tasks."""

    url: str
    push: str

    def _open(self) -> tuple[Any, str]:
        """The file system, and the folder's path in it. Raises JobError."""
        try:
            return open_folder(self.url)
        except (ImportError, OSError, ValueError) as e:
            raise JobError(f"push: cannot use {self.url}: {e}") from None

    def upload(self, file: Path) -> None:
        """Copy a file into the push, under its own name."""
        fs, root = self._open()
        fs.makedirs(f"{root}/{self.push}", exist_ok=True)
        fs.put_file(str(file), f"{root}/{self.push}/{file.name}")

    def write(self, name: str, content: bytes) -> None:
        """Write a small file into the push."""
        fs, root = self._open()
        fs.makedirs(f"{root}/{self.push}", exist_ok=True)
        _replace(fs, f"{root}/{self.push}/{name}", content)

    def read(self, name: str) -> bytes:
        fs, root = self._open()
        content: bytes = fs.cat_file(f"{root}/{self.push}/{name}")
        return content

    def publish(self, manifest: Manifest) -> None:
        """Make this the newest push. The last step is atomic: before it, nothing is published."""
        self.write(MANIFEST, manifest.encode())
        fs, root = self._open()
        _replace(fs, f"{root}/{CURRENT}", encode_current(self.push))

    def is_current(self) -> bool:
        """Whether this is the newest push."""
        fs, root = self._open()
        try:
            content = fs.cat_file(f"{root}/{CURRENT}", end=MAX_CURRENT_BYTES + 1)
            return decode_current(content) == self.push
        except (FileNotFoundError, ManifestError):
            return False

    def keep_only(self, names: Collection[str]) -> None:
        """Delete the files of failed tasks and other files that the manifest does not name."""
        fs, root = self._open()
        for path in fs.ls(f"{root}/{self.push}", detail=False):
            if path.rpartition("/")[2] not in names:
                fs.rm_file(path)

    def delete(self) -> None:
        """Delete this push."""
        fs, root = self._open()
        if fs.exists(f"{root}/{self.push}"):
            fs.rm(f"{root}/{self.push}", recursive=True)

    def delete_older(self, keep: int) -> None:
        """Delete all published pushes but the `keep` newest, and the files that dead jobs left."""
        fs, root = self._open()
        now = datetime.now(UTC)
        published = []
        for path in sorted(fs.ls(root, detail=False), reverse=True):
            name = path.rstrip("/").rpartition("/")[2]
            made_at = _time_of(name)
            if made_at is None or name == self.push:
                continue
            if fs.exists(f"{root}/{name}/{MANIFEST}"):
                published.append(f"{root}/{name}")
            elif now - made_at > _UNFINISHED_FOR:
                fs.rm(f"{root}/{name}", recursive=True)
        for path in published[max(0, keep - 1) :]:
            fs.rm(path, recursive=True)


def _replace(fs: Any, path: str, content: bytes) -> None:
    """Write a file so that readers see the old or the new content.

    Object stores replace objects as a whole. In HDFS, where a rename does not replace a file,
    readers may see a part of the content. They reject it, because it is not JSON, and read again.
    """
    if _LOCAL not in fs.protocol:
        fs.pipe_file(path, content)
        return
    new = f"{path}.{secrets.token_hex(4)}.new"
    fs.pipe_file(new, content)
    fs.mv(new, path)


def _time_of(name: str) -> datetime | None:
    """The time in the id of a push; None if it is not an id."""
    try:
        return datetime.strptime(name.rpartition("Z-")[0], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
