"""A reader of NDJSON streams that checks the keys: each one once, in ascending order."""

from __future__ import annotations

import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

from local.errors import LocalError

_PIECE = 1 << 16
_HEAD = len(b'{"key":"')
_KEY = 16


@dataclass(frozen=True, slots=True)
class Stream:
    """A whole stream: entries, bytes and seconds."""

    entries: int
    size: int
    seconds: float


def read(port: int, path: str, pause: float = 0.0) -> Stream:
    """Reads the whole stream, with a pause of `pause` s after each 64 KiB; LocalError if it is
    incomplete or its keys do not ascend."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    began = time.monotonic()
    entries = size = 0
    last, rest = b"", b""
    try:
        connection.request("GET", path, headers={"Accept": "application/x-ndjson"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise LocalError(f"{path}: {answer.status} {answer.read()!r}")
        while piece := answer.read(_PIECE):
            size += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            keys = [last, *[line[_HEAD : _HEAD + _KEY] for line in lines]]
            if sorted(set(keys)) != keys:
                raise LocalError(f"{path}: keys do not ascend after {last!r}")
            last = keys[-1]
            entries += len(lines)
            if pause:
                time.sleep(pause)
    except (OSError, HTTPException) as error:
        raise LocalError(f"{path} failed after {entries:,} entries: {error!r}") from error
    finally:
        connection.close()
    if rest:
        raise LocalError(f"{path} ends in the middle of a line")
    return Stream(entries, size, time.monotonic() - began)
