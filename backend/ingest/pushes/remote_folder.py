"""Reads the folder of a view's pushes: a folder of this machine, S3, HDFS or what fsspec supports.

Nothing there is trusted: sizes are limited, and a file is used only with its checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from model.pushes.file_systems import open_folder
from model.pushes.manifest import (
    CURRENT,
    MANIFEST,
    MAX_CURRENT_BYTES,
    MAX_MANIFEST_BYTES,
    Manifest,
    ManifestError,
    PushFile,
    decode_current,
)

_CHUNK = 1 << 20


class RemoteFolder:
    """The folder of one view's pushes. Methods raise OSError and the errors of the file system."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: tuple[Any, str] | None = None

    def _open(self) -> tuple[Any, str]:
        """The file system, and the folder's path in it. Raises ManifestError."""
        if self._opened is None:
            try:
                self._opened = open_folder(self.url)
            except (ImportError, ValueError) as e:
                raise ManifestError(f"cannot use {self.url}: {e}") from None
        return self._opened

    def current(self) -> str | None:
        """The id of the newest push; None if there is none. Raises ManifestError."""
        content = self._read(CURRENT, MAX_CURRENT_BYTES)
        return None if content is None else decode_current(content)

    def manifest(self, push: str) -> Manifest:
        """The manifest of a push. Raises ManifestError."""
        content = self._read(f"{push}/{MANIFEST}", MAX_MANIFEST_BYTES)
        if content is None:
            raise ManifestError(f"push {push} has no {MANIFEST}")
        manifest = Manifest.decode(content)
        if manifest.push != push:
            raise ManifestError(f"the {MANIFEST} of push {push} is that of {manifest.push}")
        return manifest

    def _read(self, name: str, max_bytes: int) -> bytes | None:
        """The content of a small file, at most `max_bytes` + 1 bytes; None if it does not exist."""
        fs, root = self._open()
        try:
            content: bytes = fs.cat_file(f"{root}/{name}", end=max_bytes + 1)
        except FileNotFoundError:
            # object stores have no folders; a disk may not be mounted
            if "file" in fs.protocol and not fs.isdir(root):
                raise ManifestError(f"the folder {root} does not exist") from None
            return None
        return content

    def download(
        self, push: str, file: PushFile, target: Path, progress: Callable[[int], None]
    ) -> None:
        """Copy a file of a push, and compare its size and checksum. `progress(bytes)` is called
        for each part, and may raise. Raises ManifestError."""
        fs, root = self._open()
        digest, size = hashlib.sha256(), 0
        with fs.open(f"{root}/{push}/{file.name}", "rb") as source, target.open("xb") as copy:
            while chunk := source.read(_CHUNK):
                size += len(chunk)
                if size > file.size:
                    break
                digest.update(chunk)
                copy.write(chunk)
                progress(len(chunk))
        if size != file.size or digest.hexdigest() != file.sha256:
            raise ManifestError(
                f"{file.name} of push {push} is damaged: its size or its checksum is not that of "
                f"the {MANIFEST}"
            )
