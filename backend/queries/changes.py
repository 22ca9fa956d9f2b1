"""The changes of one key as server-sent events: its value now, then each change that is applied.

Source: the HTML standard, "Server-sent events". An event is `value` (`{"key", "value"}`),
`deleted` (`{"key"}`), or `unreadable` (`{"key", "unreadable"}`) if the newest record of the key is
not in the view's format. Its id is `partition:offset` of its record. If the key is missing or its
value is from a push, the id is that of the last record that was applied. In version 2 of a view,
the id is `2/partition:offset`.

A stream ends when its partition moves or gets a new push, when partitions are added and the key
belongs to another one, when the view becomes mispartitioned, when another version of the view
becomes current, or when too many changes wait for its client or for all clients. A client that
reconnects with Last-Event-ID gets the value if it is newer or of another version, then the
changes. In a view with a push, it gets the value unless it also names the same push.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Sequence

import orjson

from backend.ingest.change_listeners import Change
from backend.ingest.store_partitions import StorePartition
from backend.queries.change_backlog import Backlog, BacklogBudget
from backend.queries.point import State, ViewReads
from backend.queries.routing import NotOwner
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.kinds.kind import DOCUMENT
from model.problems import BadRequest, StoreClosedError, StoreError, Unavailable
from model.records import decode_entry, entry_head, is_pushed, with_timestamp
from model.rows.unreadable import Unreadable, UnreadableEntry

log = RateLimitedLog(logging.getLogger(__name__))

_EVENT_ID = re.compile(rb"(?:([0-9]{1,6})/)?([0-9]{1,9}):(-?[0-9]{1,18})")
_KEEP_ALIVE = 10.0  # s; shorter than the time-out of proxies for a silent server
_CHECK_EVERY = 1.0  # s, while the client has seen a later record than this instance
_NOTHING = -2  # before -1, the offset at which a key is missing in an empty partition


class Changes:
    """One client's stream of one key. Used in the event loop only."""

    def __init__(
        self,
        reads: ViewReads,
        key: bytes,
        last_event_id: bytes | None,
        budget: BacklogBudget,
        last_push: bytes | None = None,
        with_timestamps: bool = False,
    ) -> None:
        """`last_push`: the push of the store that sent the last event; None: it had none.
        `with_timestamps`: events have the timestamps of their records.

        Raises Unavailable and NotOwner as for a read, and BadRequest if a key of the view has many
        values."""
        view = reads.view
        if not view.kind.has_changes:
            raise BadRequest(
                "wrong-store", f"View {view.name} is not key-value: its keys have no single value."
            )
        self._reads = reads
        self._key = key
        self._with_timestamps = with_timestamps
        self.state: State = reads.state_of(key)
        self._store_partition: StorePartition = self.state.store_partition
        self.push: bytes = self._store_partition.metadata.push.encode()
        """The id of the store's push, which replaced all earlier values; empty: none."""
        seen_offset = self._offset_of(last_event_id)
        self._seen = seen_offset if (last_push or b"") == self.push else _NOTHING
        self._seen_at = time.monotonic()  # when `_seen` was seen, or later
        self._loop = asyncio.get_running_loop()
        self._backlog = Backlog(budget)

    def _offset_of(self, event_id: bytes | None) -> int:
        """The offset in an event id; _NOTHING if it is not of this partition and version."""
        if event_id is None:
            return _NOTHING
        parsed = _EVENT_ID.fullmatch(event_id)
        if parsed is None:
            raise BadRequest("bad-parameter", "Last-Event-ID is partition:offset, as events give.")
        version, partition, offset = int(parsed[1] or 1), int(parsed[2]), int(parsed[3])
        expected = self._reads.view.version, self._store_partition.partition
        return offset if (version, partition) == expected else _NOTHING

    async def events(self) -> AsyncGenerator[bytes]:
        """The events, until the partition is closed or too many changes wait."""
        listeners = self._store_partition.listeners
        listeners.add(self._key, self._notify)
        try:
            try:  # the key may have moved before there was a listener
                self._reads.state_of(self._key)
            except (NotOwner, Unavailable):
                return
            # the look-up has all changes before this; later ones come as events
            if (current := self._admitted_current()) is None:
                return
            yield current
            while True:
                try:
                    change = await self._backlog.get(
                        _CHECK_EVERY if self._is_ahead else _KEEP_ALIVE
                    )
                except TimeoutError:
                    if not self._is_of_other_log():
                        yield b": still there\n\n"
                        continue
                    self._seen = _NOTHING
                    if (current := self._admitted_current()) is None:
                        return
                    yield current
                    continue
                if change is None:
                    return
                if change.offset > self._seen or self._is_of_other_log():
                    self._note_seen(change.offset)
                    yield self._event(change)
        finally:
            listeners.remove(self._key, self._notify)
            self._backlog.close()

    @property
    def _is_ahead(self) -> bool:
        """Whether the client has seen a later record than this instance."""
        return self._seen >= self._store_partition.progress.position

    def _is_of_other_log(self) -> bool:
        """Whether the topic ends before the last event that the client has seen: it was created
        again, or the brokers have lost records. Otherwise, this instance lags."""
        metadata = self._reads.latest_metadata
        if metadata is None or metadata.fetched_at < self._seen_at:
            return False
        end = metadata.ends.get(self._store_partition.partition)
        return end is not None and self._seen >= end

    def _notify(self, changes: Sequence[Change] | None) -> None:
        """Called in the ingest thread."""
        self._loop.call_soon_threadsafe(self._take, changes)

    def _take(self, changes: Sequence[Change] | None) -> None:
        if changes is None:
            self._backlog.end()
        elif not self._backlog.put(changes):
            self._store_partition.listeners.remove(self._key, self._notify)

    def _admitted_current(self) -> bytes | None:
        """The event with the value now; None if the stream has to end."""
        try:
            current = self._current()
        except Unavailable as problem:
            if problem.code != "not-here":  # else the partition was closed: no warning
                name, code = self._reads.view.name, problem.code
                why = f"{code}: {problem.detail}"
                log.warn(f"{name}: {code}", f"no changes of a key of view {name}: {why}")
            return None
        return current if self._backlog.admit(len(current)) else None

    def _current(self) -> bytes:
        position = self._store_partition.progress.position
        unreadable: str | None = None
        try:
            stored = self._reads.look_up(self._store_partition.store, self._key)
        except UnreadableEntry as e:
            stored, unreadable = e.entry, e.unreadable.reason
        except (StoreClosedError, StoreError) as e:
            raise self._reads.store_problem(self._store_partition, e) from None
        timestamp = -1  # of no record
        if stored is None:
            offset, value = position - 1, None
        else:
            timestamp, offset, value = decode_entry(stored)
            if is_pushed(offset):
                # all events of this push are as old as its value, or newer
                offset = position - 1 if self._seen == _NOTHING else self._seen
        if offset <= self._seen:
            return b": nothing new\n\n"
        self._note_seen(offset)
        return self._event(Change(offset, timestamp, value, unreadable))

    def _note_seen(self, offset: int) -> None:
        self._seen, self._seen_at = offset, time.monotonic()

    def _event(self, change: Change) -> bytes:
        view, partition = self._reads.view, self._store_partition.partition
        offset, timestamp, value, unreadable = change
        key = _on_one_line(view.key_codec.to_json(self._key))
        event_id = b"%d:%d" % (partition, offset)
        if view.version > 1:
            event_id = b"%d/%b" % (view.version, event_id)
        if value is None:
            event, body = b"deleted", b'{"key":%b}' % key
        elif unreadable is not None:
            report = Unreadable.with_reason(partition, offset, unreadable, value).document()
            event, body = b"unreadable", b'{"key":%b,"unreadable":%b}' % (key, orjson.dumps(report))
        else:
            document = _on_one_line(view.value_codec.to_json(value))
            event, body = b"value", DOCUMENT % (key, document)
        if self._with_timestamps:
            body = with_timestamp(body, entry_head(timestamp, offset))
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id, event, body)


def _on_one_line(document: bytes) -> bytes:
    """The document without line breaks, which would end the field. Between the tokens of a JSON
    document, a space means the same."""
    return re.sub(rb"[\r\n]+", b" ", document)
