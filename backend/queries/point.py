"""What a read means: from a view and a key to an answer, or to whom to ask instead.

The hot path. Between request and RocksDB it must not log, lock, parse a header, copy a value more
than once or decode one: a JSON value was validated when it was stored, and is passed on as bytes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from backend.ingest.protocols import Store
from backend.ingest.store_partitions import StorePartition
from backend.instance_context import InstanceContext, ReadCounts
from backend.queries.representation import JSON as AS_JSON
from backend.queries.representation import VARY, represented
from backend.queries.routing import PLAIN, KeyRouting, ReadOptions
from backend.wire.answer import JSON, Answer, Header, etag_of, freshness_headers
from model.problems import (
    BadRequest,
    KeyTooLong,
    NotFound,
    Problem,
    StoreClosedError,
    StoreError,
    Unavailable,
)
from model.records import (
    ENTRY,
    ENTRY_HEAD_SIZE,
    decode_entry,
    entry_offset,
    is_deleted,
)
from model.topology import ROLES
from model.views import View

DOCUMENT = b'{"key":%b,"value":%b}'


class ViewReads(KeyRouting):
    """Point reads of one view, from what this instance holds."""

    def __init__(self, view: View, context: InstanceContext) -> None:
        super().__init__(view, context)
        self.counts: ReadCounts = context.counts[view.name]
        self._from_text = view.key_codec.from_text
        plain = view.kind.one_entry_per_key and view.key_codec.keeps_bytes
        self._stored_key = ENTRY.__add__ if plain else view.layout.stored_key
        self._expires = view.retention is not None
        self.key_json = view.key_codec.to_json
        self.value_json = view.value_codec.to_json
        self.max_key_bytes = context.settings.max_key_bytes
        self._pipeline = context.pipelines.get(view.name)
        me = context.settings.instance_id
        self._served_by = {role: (b"served-by", f"{me}; {role}".encode()) for role in ROLES}

    def parse_key(self, text: bytes) -> bytes:
        """Percent-decoded text of a URL as record bytes; BadRequest, KeyTooLong."""
        if len(text) > self.max_key_bytes:
            raise KeyTooLong(
                "key-too-long",
                f"The key has {len(text)} bytes; at most {self.max_key_bytes} are read.",
            )
        try:
            return self._from_text(text)
        except ValueError as e:
            raise BadRequest(
                "key-undecodable",
                f"View {self.view.name} has {self.view.key} keys, and this is {e}.",
            ) from None

    def parse_keys(self, texts: list[bytes]) -> list[bytes]:
        """`parse_key` of each; where one of them is refused, all are."""
        if self.view.key != "string" or max(map(len, texts)) > self.max_key_bytes:
            return list(map(self.parse_key, texts))
        try:
            # text is text, joined or not
            b" ".join(texts).decode()
        except UnicodeDecodeError:
            return list(map(self.parse_key, texts))
        return texts

    def parse_raw_key(self, raw: bytes) -> bytes:
        """Record bytes that the reader gave as such; BadRequest, KeyTooLong."""
        if len(raw) > self.max_key_bytes:
            return self.parse_key(raw)
        try:
            self.view.key_codec.check(raw)
        except ValueError as e:
            raise BadRequest(
                "key-undecodable",
                f"View {self.view.name} has {self.view.key} keys, and these bytes are {e}.",
            ) from None
        return raw

    def read(self, key: bytes, options: ReadOptions = PLAIN) -> Answer:
        """The answer as of the position of the key's store partition.

        NotOwner if another instance is active for it; Unavailable if nobody can answer now; a
        miss is NotFound.
        """
        held = self.holder(key, options)
        # before the look-up: what is applied meanwhile is not in the answer, nor may Offset say so
        headers = self.state_headers(held)
        position = held.progress.position
        stored = self._stored(held, key)
        if stored is None:
            miss = self.miss(held, position)
            return Answer(404, miss.headers() + headers, miss.body())
        if options.representation != AS_JSON:
            return self._represented(held, stored, headers, options.representation)
        value = self.value_json(stored[ENTRY_HEAD_SIZE:])
        self.counts.found += 1
        headers += (JSON, VARY, self.etag(held, stored))
        return Answer(200, headers, DOCUMENT % (self.key_json(key), value))

    def miss(self, held: StorePartition, position: int) -> NotFound:
        """What is said of a key that is not there; it does not name the key."""
        return NotFound(
            "key-not-found",
            f"View {self.view.name} has no such key, as of offset {position} of "
            f"partition {held.partition}.",
        )

    def value(self, held: StorePartition, key: bytes) -> bytes | None:
        """What `read` says, without all that stands around it: the value as JSON, or None."""
        stored = self._stored(held, key)
        if stored is None:
            return None
        value = self.value_json(stored[ENTRY_HEAD_SIZE:])
        self.counts.found += 1
        return value

    def _stored(self, held: StorePartition, key: bytes) -> bytes | None:
        """The key's entry, or the certainty that there is none, which is counted."""
        try:
            stored = self.look_up(held.store, key)
        except (StoreClosedError, StoreError) as e:
            raise unreadable(held, e) from None
        if stored is None:
            self.refuse_doubtful(key)
            self.counts.missed += 1
        return stored

    def gathered(
        self, key: bytes, raw: bytes | None, representation: str, headers: list[Header]
    ) -> Answer:
        """The answer that all partitions together give: the value's record bytes, or None."""
        if raw is None:
            problem = NotFound(
                "key-not-found", f"No partition of view {self.view.name} has such a key."
            )
            return Answer(404, problem.headers() + headers, problem.body())
        if representation != AS_JSON:
            more, body = represented(representation, raw, self.view.value_codec)
        else:
            more, body = [JSON, VARY], DOCUMENT % (self.key_json(key), self.value_json(raw))
        return Answer(
            200, [*headers, *more, etag_of(self.view.hash.encode() + raw, representation)], body
        )

    def count(self, answer: Answer) -> None:
        """Book a value or a miss."""
        self.counts.found += answer.status == 200
        self.counts.missed += answer.status == 404

    def _represented(
        self, held: StorePartition, stored: bytes, headers: list[Header], kind: str
    ) -> Answer:
        """The value alone, as the reader asked for it."""
        raw = stored[ENTRY_HEAD_SIZE:]
        more, body = represented(kind, raw, self.view.value_codec)
        self.counts.found += 1
        return Answer(200, [*headers, *more, self.etag(held, stored, kind.encode())], body)

    def etag(self, held: StorePartition, stored: bytes, kind: bytes = b"json") -> Header:
        return (b"etag", held.etag_format % (entry_offset(stored), kind))

    def look_up(self, store: Store, key: bytes) -> bytes | None:
        """The stored bytes of the key's entry; None where there is none, it says that the key was
        deleted, or it has expired."""
        stored = store.get(self._stored_key(key))
        if stored is None or is_deleted(stored):
            return None
        if self._expires:
            until = self.view.kind.horizon(self.view, store.stream_time)
            if decode_entry(stored).timestamp < until:
                return None
        return stored

    def look_up_many(self, store: Store, keys: Sequence[bytes]) -> list[bytes | None]:
        """`look_up` of each; where one of them fails, all do."""
        found = store.get_many(list(map(self._stored_key, keys)))
        if self._expires:
            until = self.view.kind.horizon(self.view, store.stream_time)
            found = [s if s is None or decode_entry(s).timestamp >= until else None for s in found]
        # as `is_deleted`: of many, the call would be most of it
        return [s if s is None or s[8] < 0x80 else None for s in found]

    def state_headers(self, held: StorePartition) -> list[Header]:
        progress = held.progress
        now = time.monotonic()
        lag = progress.lag(now, self._trusted_for)
        staleness = progress.staleness(now)
        headers = [
            (b"partition", held.partition_header),
            (b"offset", b"%d" % progress.position),
            *freshness_headers(lag, staleness),
            self._served_by[held.role],
        ]
        if self._pipeline is not None:
            headers += self._pipeline.headers(now)
        return headers


class WrongStoreReads(ViewReads):
    """Point reads of a view whose keys have many entries: refused, and told where those are."""

    def read(self, key: bytes, options: ReadOptions = PLAIN) -> Answer:
        resource = f"{self.view.store}s"
        raise BadRequest(
            "wrong-store",
            f"View {self.view.name} has {resource}, not one value a key: ask "
            f"/views/{self.view.name}/keys/{{key}}/{resource}.",
        )


def unreadable(held: StorePartition, error: StoreClosedError | StoreError) -> Unavailable:
    """What a reader is told; a store that is damaged will be rebuilt by ingest."""
    if isinstance(error, StoreClosedError):
        return Unavailable("not-here", "This instance has just let go of the key's partition.")
    held.damaged = str(error)
    return Unavailable("store-damaged", "The store partition cannot be read, and is being rebuilt.")


def count_refusal(counts: ReadCounts, problem: Problem) -> None:
    """Book an answer that is neither a value nor a miss."""
    if problem.status == 503:
        counts.unavailable += 1
    else:
        counts.refused += 1
