"""Reads of a versioned store by key: the latest version, or the one that was valid at a time.

Source: KIP-889 (versioned state stores).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from backend.api.answer import JSON, Answer
from backend.api.reads import PLAIN, ReadOptions, ViewReads, unreadable
from backend.core.errors import Gone, NotFound, StoreClosedError, StoreError
from backend.core.expiry import horizon
from backend.core.layouts import VersionedLayout
from backend.core.records import ENTRY_HEAD_SIZE, is_deleted
from backend.ingest.held import HeldPartition

Stored = tuple[bytes, bytes]
"""A stored key, and the stored bytes there."""


def version_at(
    held: HeldPartition, layout: VersionedLayout, key: bytes, time: int | None
) -> Stored | None:
    """The version of `key` that began last, up to `time` (ms; None: of all); maybe "deleted"."""
    low, high = layout.valid_from_range(key, None, time)
    return next(held.store.scan(low, high, backwards=True), None)


def validity(layout: VersionedLayout, found: Stored, following: Stored | None) -> tuple[int, bytes]:
    """From when (ms) and, as JSON, until when a version is valid; the next one ends it."""
    began = layout.entry_key(found[0]).start
    if following is None:
        return began, b"null"
    return began, b"%d" % layout.entry_key(following[0]).start


class VersionedReads(ViewReads):
    """Point reads of a versioned view."""

    def look_up(self, held: HeldPartition, key: bytes) -> bytes | None:
        found = version_at(held, cast(VersionedLayout, self.view.layout), key, None)
        return None if found is None or is_deleted(found[1]) else found[1]

    def look_up_many(self, held: HeldPartition, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.look_up(held, key) for key in keys]

    def read(self, key: bytes, options: ReadOptions = PLAIN) -> Answer:
        """Gone if `as_of` lies before what is kept and cannot be told from it."""
        if options.as_of is None:
            return super().read(key, options)
        held = self.holder(key, options)
        headers = self.state_headers(held)
        layout = cast(VersionedLayout, self.view.layout)
        try:
            found = version_at(held, layout, key, options.as_of)
            end = layout.valid_from_range(key, None, None)[1]
            following = found and next(held.store.scan(found[0] + b"\0", end), None)
        except (StoreClosedError, StoreError) as e:
            raise unreadable(held, e) from None
        kept_from = horizon(self.view, held.store.stream_time)
        if options.as_of < kept_from and (found is None or following is not None):
            raise Gone(
                "outside-history",
                f"View {self.view.name} keeps what was valid from {kept_from} on, not at "
                f"{options.as_of}.",
                history_from=kept_from,
            )
        if found is None or is_deleted(found[1]):
            self.refuse_doubtful(key)
            self.counts.missed += 1
            problem = NotFound(
                "key-not-found", f"View {self.view.name} had no such key at {options.as_of}."
            )
            return Answer(404, problem.headers() + headers, problem.body())
        self.counts.found += 1
        headers += (JSON, self.etag(held, found[1]))
        return Answer(
            200,
            headers,
            b'{"key":%b,"value":%b,"valid_from":%d,"valid_to":%b}'
            % (
                self.view.key_codec.to_json(key),
                self.view.value_codec.to_json(found[1][ENTRY_HEAD_SIZE:]),
                *validity(layout, found, following),
            ),
        )
