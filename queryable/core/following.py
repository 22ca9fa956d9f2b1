"""The changes of a key, for as long as one likes: a stream that ends is opened again where it
ended."""

from __future__ import annotations

from typing import Any

from queryable.core.answers import Change, Source
from queryable.core.core import Core, Question, understood
from queryable.core.documents import document_of
from queryable.core.effects import Call, Close, NoConnection, Pause, Read
from queryable.core.errors import Unavailable
from queryable.core.lines import Event, EventSplitter
from queryable.core.views import View

# s; an instance says every 10 s that it is still there
SILENCE = 25.0
_PAUSE = 0.1


class Changes:
    """A pager (see pages.py) whose pages are what has come; it never ends by itself."""

    def __init__(
        self, core: Core, view: View, key: Any, last: tuple[int, int] | None, patience: float
    ) -> None:
        """After `last` (partition, offset), or with what is there now. `patience`: s for which
        nobody may be able to tell the changes."""
        self.source: Source | None = None
        self._core = core
        self._view = view
        self._key = key
        self._last = None if last is None else f"{last[0]}:{last[1]}"
        self._patience = patience
        self._stream: Any = None
        self._events = EventSplitter()
        # an absent key's event is of the last record of all keys: each stream tells it anew
        self._was_deleted = False
        self._is_resumed = False

    def next(self) -> Call[list[Change]]:
        while True:
            if self._stream is None:
                yield from self._open()
            try:
                chunk = yield Read(self._stream)
            except NoConnection:
                chunk = b""
            if not chunk:  # it moved, or its instance stopped: others go on
                yield from self._drop()
                yield Pause(_PAUSE)
                continue
            changes = [self._change(event) for event in self._events.feed(chunk)]
            if changes := [change for change in changes if self._is_new(change)]:
                return changes

    def _open(self) -> Call[None]:
        segment, is_base64 = self._view.key.segment(self._key)
        target = f"/views/{self._view.name}/keys/{segment}/changes"
        target += "?encoding=base64url" if is_base64 else ""
        headers = {"accept": "text/event-stream"}
        if self._last is not None:
            headers["last-event-id"] = self._last
        deadline = self._core.clock() + self._patience
        while True:
            try:
                holders = yield from self._core.holders(self._view, self._key)
                question = Question(target, "GET", headers, holders=holders)
                stream = yield from self._core.open(question, SILENCE)
                break
            except Unavailable as e:
                if e.is_final or self._core.clock() + e.retry_after >= deadline:
                    raise
                yield Pause(e.retry_after)
        self._stream = stream
        self._events = EventSplitter()
        self._is_resumed = self._last is not None
        self.source = Source(stream.headers)

    def _change(self, event: Event) -> Change:
        with understood():
            partition, offset = map(int, event.id.split(":"))
            said = document_of("\n".join(event.data).encode())
            key = self._view.key.from_json(said["key"])
            is_deleted = event.kind == "deleted"
            value = None if is_deleted else self._view.value.from_json(said["value"])
        self._last = event.id
        if (offsets := self._core.offsets) is not None and offset >= 0:
            offsets.wrote(self._view.topic, partition, offset)
        return Change(key, value, is_deleted, partition, offset)

    def _is_new(self, change: Change) -> bool:
        is_told_again = self._is_resumed and self._was_deleted and change.is_deleted
        self._is_resumed, self._was_deleted = False, change.is_deleted
        return not is_told_again

    def _drop(self) -> Call[None]:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            yield Close(stream)

    def close(self) -> Call[None]:
        yield from self._drop()
