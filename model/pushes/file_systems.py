"""The file systems of pushes' folders: this machine's, S3, HDFS and others that fsspec supports."""

from __future__ import annotations

from functools import partial
from typing import Any

from fsspec.core import url_to_fs

CONNECT_TIMEOUT_S = 5.0  # s
READ_TIMEOUT_S = 60.0  # s without a byte of an answer


def open_folder(url: str) -> tuple[Any, str]:
    """The file system of a folder, and the folder's path in it. Raises ImportError, OSError and
    ValueError."""
    fs, path = url_to_fs(url, use_listings_cache=False)
    if "webhdfs" in fs.protocol:
        # requests has no time-outs, and fsspec sets none. fsspec may return the same fs again: then
        # this is a partial of a partial, which Python merges into one.
        fs.session.request = partial(
            fs.session.request, timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
        )
    return fs, path.rstrip("/")
