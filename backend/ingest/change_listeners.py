"""Who wants to hear of changes of which key of one store partition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from backend.ingest.batch import DeadLetter, Record
from model.kinds.layout import Layout


class Change(NamedTuple):
    """A record of a watched key that has been applied; no value: deleted. Time in ms."""

    offset: int
    timestamp: int
    value: bytes | None


Tell = Callable[[Sequence[Change] | None], None]
"""Called in the ingest thread, in the order of the log; None: nothing more comes from here."""


class ChangeListeners:
    """Readers add and remove themselves from any thread; ingest tells them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[bytes, list[Tell]] = {}
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, key: bytes, tell: Tell) -> None:
        with self._lock:
            if not self._closed:
                self._by_key.setdefault(key, []).append(tell)
                return
        tell(None)

    def remove(self, key: bytes, tell: Tell) -> None:
        """Nothing happens if it is not there (any more)."""
        with self._lock:
            telling = self._by_key.get(key, [])
            if tell in telling:
                telling.remove(tell)
                if not telling:
                    del self._by_key[key]

    def applied(
        self, records: Sequence[Record], layout: Layout, dead: Sequence[DeadLetter]
    ) -> None:
        """These records are stored now, but for the dead letters among them."""
        refused = {letter.record.offset() for letter in dead}
        changes: dict[bytes, list[Change]] = {}
        for record in records:
            raw = record.key()
            if raw is None or record.offset() in refused:
                continue
            key = layout.bare_key(raw)
            if key in self._by_key:
                change = Change(record.offset(), record.timestamp()[1], record.value())
                changes.setdefault(key, []).append(change)
        for key, of_key in changes.items():
            with self._lock:
                telling = list(self._by_key.get(key, ()))
            for tell in telling:
                tell(of_key)

    def close(self) -> None:
        """The store partition is let go: tell everybody."""
        with self._lock:
            self._closed = True
            telling = [tell for of_key in self._by_key.values() for tell in of_key]
            self._by_key.clear()
        for tell in telling:
            tell(None)
