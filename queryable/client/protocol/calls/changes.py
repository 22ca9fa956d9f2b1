"""The changes of a key: server-sent events, across instances that stop and start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from model.formats.json_decoder import decode_json
from queryable.client.protocol.answers import Change, Source
from queryable.client.protocol.context import MAX_DESCRIBED, ClientContext
from queryable.client.protocol.descriptions import changing
from queryable.client.protocol.errors import BadUse, NoAnswer, Unavailable
from queryable.client.protocol.pagination import Pager
from queryable.client.protocol.parameters import Parameters, key_target
from queryable.client.protocol.requests import ApiRequest
from queryable.client.protocol.responses import decoding
from queryable.client.protocol.rows import value_from_json
from queryable.client.protocol.stream_decoders import Event, EventDecoder
from queryable.client.protocol.transport import (
    Call,
    CloseStream,
    ReadChunk,
    Sleep,
    TransportError,
)
from queryable.client.protocol.views import View

# an instance sends a comment every 10 s
READ_TIMEOUT_S = 25.0
_REOPEN_DELAY_S = 0.1
_MAX_REOPEN_DELAY_S = 2.0
_LASTING_S = 1.0  # a stream that ends earlier has ended immediately


def changes(
    context: ClientContext,
    view: str,
    key: Any,
    *,
    after: tuple[int, int] | Change | None = None,
    timestamps: bool = False,
    patience: float = 60.0,
) -> Call[Pager[Change]]:
    """The current value of a key, then each change. The rows have no end.

    `after`: the last change already seen; older ones are omitted. `after` may also be the partition
    and offset of that change. Then some changes may be repeated: a deletion, the value of a view
    with a push, and, unless `view` names a version, the value of a version after the first one.
    `timestamps`: the changes have the timestamps of their records. `patience`: Unavailable is
    raised after this many seconds without an available instance, or with streams that end
    immediately.
    """
    view_info = yield from context.view_to_read(view, context.deadline(patience))
    view_info.key.path_segment(key)  # raises an error for an invalid key now, not at the first page
    named = view_info.version if "@" in view else None
    last_id = None if after is None else _event_id(after, named)
    return ChangePager(context, view_info, key, after, last_id, timestamps, patience)


def _event_id(after: tuple[int, int] | Change, version: int | None) -> str:
    """The id that the server has given the change. Ids of a view's later versions name the version.
    `version`: the version that the caller names."""
    if isinstance(after, Change):
        partition, offset, version = after.partition, after.offset, after.version
    else:
        partition, offset = after
    return f"{partition}:{offset}" if version in (None, 1) else f"{version}/{partition}:{offset}"


class ChangePager:
    """A Pager whose pages are the changes that have arrived. It has no last page."""

    def __init__(
        self,
        context: ClientContext,
        view: View,
        key: Any,
        after: tuple[int, int] | Change | None,
        last_id: str | None,
        timestamps: bool,
        patience: float,
    ) -> None:
        self.source: Source | None = None
        self._context = context
        self._closings = context.closings
        self._view = view
        self._answering = view  # the view whose formats the stream has
        self._key = key
        self._last_id = last_id
        self._parameters = Parameters().add("timestamps", "true" if timestamps else None)
        self._patience = patience
        self._stream: Any = None
        self._push: str | None = None  # the push of the view that answers the stream
        self._events = EventDecoder()
        # The event of an absent key has the offset of the partition's last record, not that of the
        # delete, so each stream repeats it under another id. If the view has a push, each stream of
        # an instance without `View-Push` begins with the value.
        self._last_change = after if isinstance(after, Change) else None
        self._is_first_after_resume = False
        self._opened_at = 0.0  # when the open stream began
        # while streams end immediately: when to stop opening new ones
        self._give_up_at: float | None = None
        self._reopened = 0

    def next(self) -> Call[list[Change]]:
        while True:
            self._context.require_open(self._closings)
            if self._stream is None:
                yield from self._open()
            try:
                chunk = yield ReadChunk(self._stream)
            except TransportError:
                chunk = b""
            if not chunk:  # the partition moved, or the instance stopped: another one continues
                yield from self._close_stream()
                yield Sleep(self._reopen_delay())
                continue
            changes = [self._decode(event) for event in self._events.feed(chunk)]
            if changes := [change for change in changes if self._is_new(change)]:
                self._note_progress()
                return changes

    def _note_progress(self) -> None:
        self._give_up_at, self._reopened = None, 0

    def _reopen_delay(self) -> float:
        """Seconds until the next stream; longer after each one that ends immediately. Raises
        NoAnswer if streams end immediately for too long."""
        now = self._context.clock()
        if now - self._opened_at >= _LASTING_S:
            self._note_progress()
        elif self._give_up_at is not None and now >= self._give_up_at:
            raise NoAnswer(f"The streams of changes of view {self._view.name} end immediately.")
        if self._give_up_at is None:
            self._give_up_at = now + self._patience
        delay = min(_REOPEN_DELAY_S * 2.0**self._reopened, _MAX_REOPEN_DELAY_S)
        self._reopened = min(self._reopened + 1, 10)  # no overflow
        return delay

    def _open(self) -> Call[None]:
        headers = {"accept": "text/event-stream"}
        if self._last_id is not None:
            headers["last-event-id"] = self._last_id
            if self._last_change is not None and self._last_change.push is not None:
                headers["view-push"] = self._last_change.push
        context = self._context
        give_up_at = context.clock() + self._patience
        attempts = 0
        while True:
            context.require_open(self._closings)
            target = self._target(self._view)
            try:
                deadline = min(context.deadline(None), give_up_at)
                replicas = yield from context.replicas(self._view, self._key, deadline)
                request = ApiRequest(target, headers=headers, instances=replicas)
                deadline = min(context.deadline(READ_TIMEOUT_S), give_up_at)
                opening = context.open_described(request, self._view, READ_TIMEOUT_S, deadline)
                self._stream, self._answering = yield from opening
                # the name in the call, which means the current version
                named = replace(self._answering, name=self._view.name)
                if self._target(named) == target:
                    break
                # the key is written in another way there
                self._view = named
                yield from self._close_stream()
                attempts += 1
                if attempts % MAX_DESCRIBED == 0:
                    raise changing(named.name)
            except BadUse:  # the view that answers cannot have the key
                yield from self._close_stream()
                raise
            except Unavailable as e:
                yield from self._close_stream()
                if e.is_final or context.clock() + e.retry_after >= give_up_at:
                    raise
                yield Sleep(e.retry_after)
        self._opened_at = context.clock()
        self._events = EventDecoder()
        self._is_first_after_resume = self._last_id is not None
        self._push = self._stream.headers.get("view-push")
        self.source = Source(self._stream.headers)

    def _target(self, view: View) -> str:
        return key_target(view, self._key, "/changes", self._parameters)

    def _decode(self, event: Event) -> Change:
        with decoding():
            # the ids of a view's later versions are version/partition:offset
            partition, offset = map(int, event.id.rpartition("/")[2].split(":"))
            document = decode_json("\n".join(event.data).encode())
            key = self._answering.key.key_from_json(document["key"])
            is_deleted = event.kind == "deleted"
            value = None if is_deleted else value_from_json(self._answering, document)
        self._last_id = event.id
        if offset >= 0:
            self._context.note_record(self._answering, partition, offset)
        version = self._answering.version
        timestamp = document.get("timestamp")
        return Change(key, value, is_deleted, partition, offset, version, self._push, timestamp)

    def _is_new(self, change: Change) -> bool:
        last, is_first = self._last_change, self._is_first_after_resume
        self._last_change, self._is_first_after_resume = change, False
        if last is None or not is_first:
            return True
        return change != last and not (change.is_deleted and last.is_deleted)

    def _close_stream(self) -> Call[None]:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            yield CloseStream(stream)

    def close(self) -> Call[None]:
        yield from self._close_stream()
