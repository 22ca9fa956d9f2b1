"""Received bytes that the parser of a connection has not read yet."""

from __future__ import annotations

from collections import deque

_SLICE_BYTES = 16 * 1024  # bytes per call of the parser


class PendingData:
    """The bytes, in slices: the parser copies the bytes after the end of each request, and other
    connections get turns between the slices of a body that takes the parser long."""

    def __init__(self) -> None:
        self.size = 0  # bytes
        self._slices: deque[bytes] = deque()

    def __bool__(self) -> bool:
        return bool(self._slices)

    def add(self, data: bytes) -> None:
        for at in range(0, len(data), _SLICE_BYTES):
            self._slices.append(data[at : at + _SLICE_BYTES])
        self.size += len(data)

    def put_back(self, data: bytes) -> None:
        """Put bytes back, as the next ones."""
        if data:
            self._slices.appendleft(data)
            self.size += len(data)

    def next(self) -> bytes:
        data = self._slices.popleft()
        self.size -= len(data)
        return data

    def clear(self) -> None:
        self._slices.clear()
        self.size = 0
