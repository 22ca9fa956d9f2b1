"""The file systems of pushes' folders: this machine's, S3, HDFS and others that fsspec supports."""

from __future__ import annotations

from typing import Any

from fsspec.core import url_to_fs

CONNECT_TIMEOUT = 5.0  # s
READ_TIMEOUT = 60.0  # s without a byte of an answer


def open_folder(url: str) -> tuple[Any, str]:
    """The file system of a folder, and the folder's path in it. Raises ImportError, OSError and
    ValueError."""
    fs, path = url_to_fs(url, use_listings_cache=False)
    if "webhdfs" in fs.protocol:
        _limit_time(fs.session)
    return fs, path.rstrip("/")


def _limit_time(session: Any) -> None:
    """requests has no time-outs, and fsspec sets none."""
    from requests.adapters import HTTPAdapter

    class WithTimeouts(HTTPAdapter):  # type: ignore[misc]
        def send(self, request: Any, **options: Any) -> Any:
            options["timeout"] = options.get("timeout") or (CONNECT_TIMEOUT, READ_TIMEOUT)
            return super().send(request, **options)

    for scheme in ("http://", "https://"):
        session.mount(scheme, WithTimeouts())
