"""Listeners for changes of keys in one store partition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from backend.ingest.batch import VALUE_REASON, DeadLetter
from backend.ingest.protocols import Record
from model.kinds.layout import Layout


class Change(NamedTuple):
    """An applied record of a watched key; the value is None if the key is missing now. Time in
    ms. `unreadable`: why the value cannot be read."""

    offset: int
    timestamp: int
    value: bytes | None
    unreadable: str | None = None


Listener = Callable[[Sequence[Change] | None], None]
"""Called in the ingest thread, in log order. None means that the store partition was closed."""


class ChangeListeners:
    """The listeners of one store partition, by key. Any thread may add and remove listeners; the
    ingest thread calls them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[bytes, list[Listener]] = {}
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, key: bytes, listener: Listener) -> None:
        """Add a listener. If the store partition is closed, call it with None immediately."""
        with self._lock:
            if not self._closed:
                self._by_key.setdefault(key, []).append(listener)
                return
        listener(None)

    def remove(self, key: bytes, listener: Listener) -> None:
        """Remove a listener; no error if it is unknown."""
        with self._lock:
            listeners = self._by_key.get(key, [])
            if listener in listeners:
                listeners.remove(listener)
                if not listeners:
                    del self._by_key[key]

    def applied(
        self,
        records: Sequence[Record],
        layout: Layout,
        dead_letters: Sequence[DeadLetter],
        horizon: int,
    ) -> None:
        """Notify listeners of stored records. Dead letters that are not stored are skipped.
        `horizon`: the smallest time (ms) of a record that has not expired."""
        reasons = {
            letter.record.offset(): letter.reason.removeprefix(VALUE_REASON)
            for letter in dead_letters
        }
        skipped = {letter.record.offset() for letter in dead_letters if not letter.is_stored}
        changes: dict[bytes, list[Change]] = {}
        for record in records:
            raw = record.key()
            if raw is None or record.offset() in skipped:
                continue
            key = layout.bare_key(raw)
            if key in self._by_key:
                timestamp = record.timestamp()[1]
                value = record.value() if timestamp >= horizon else None
                unreadable = None if value is None else reasons.get(record.offset())
                change = Change(record.offset(), timestamp, value, unreadable)
                changes.setdefault(key, []).append(change)
        for key, key_changes in changes.items():
            with self._lock:
                listeners = list(self._by_key.get(key, ()))
            for listener in listeners:
                listener(key_changes)

    def end_where(self, condition: Callable[[bytes], bool]) -> None:
        """Notify the listeners of keys for which `condition` is true, as if the store partition
        were closed."""
        with self._lock:
            ended = {
                key: listeners_of_key
                for key, listeners_of_key in self._by_key.items()
                if condition(key)
            }
            for key in ended:
                del self._by_key[key]
        for listeners_of_key in ended.values():
            for listener in listeners_of_key:
                listener(None)

    def close(self) -> None:
        """Notify all listeners that the store partition is closed."""
        with self._lock:
            self._closed = True
            listeners = [
                listener
                for listeners_of_key in self._by_key.values()
                for listener in listeners_of_key
            ]
            self._by_key.clear()
        for listener in listeners:
            listener(None)
