"""Reads of a versioned store by key: the latest version, or the one that was valid at a time.

Source: KIP-889 (versioned state stores).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from backend.ingest.protocols import Store
from backend.queries.point import ViewReads, unreadable
from backend.queries.representation import JSON as AS_JSON
from backend.queries.routing import PLAIN, ReadOptions
from backend.wire.answer import JSON, Answer, Header, etag_of
from model.kinds.kind import Pair
from model.kinds.versioned import VersionedLayout, validity, version_at
from model.problems import Gone, NotFound, StoreClosedError, StoreError
from model.records import ENTRY_HEAD_SIZE, is_deleted


class VersionedReads(ViewReads):
    """Point reads of a versioned view."""

    def look_up(self, store: Store, key: bytes) -> bytes | None:
        return self.view.kind.look_up(self.view, store, key)

    def look_up_many(self, store: Store, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.look_up(store, key) for key in keys]

    def read(self, key: bytes, options: ReadOptions = PLAIN) -> Answer:
        """Gone if `as_of` lies before what is kept and cannot be told from it."""
        if options.as_of is None:
            return super().read(key, options)
        held = self.holder(key, options)
        headers = self.state_headers(held)
        try:
            version = self._valid(held.store, key, options.as_of)
        except (StoreClosedError, StoreError) as e:
            raise unreadable(held, e) from None
        if version is None:
            self.refuse_doubtful(key)
        answer = self._told(headers, key, options.as_of, version)
        self.count(answer)
        return answer

    def read_gathered(self, key: bytes, as_of: int, store: Store, headers: list[Header]) -> Answer:
        """`as_of`, from all versions of the key in whichever partitions they are."""
        return self._told(headers, key, as_of, self._valid(store, key, as_of))

    def _valid(self, store: Store, key: bytes, as_of: int) -> tuple[Pair, Pair | None] | None:
        """The version that was valid then, if there was one, and the next one; Gone."""
        layout = cast(VersionedLayout, self.view.layout)
        found = version_at(store, layout, key, as_of)
        end = layout.valid_from_range(key, None, None)[1]
        following = found and next(store.scan(found[0] + b"\0", end), None)
        kept_from = self.view.kind.horizon(self.view, store.stream_time)
        if as_of < kept_from and (found is None or following is not None):
            raise Gone(
                "outside-history",
                f"View {self.view.name} keeps what was valid from {kept_from} on, not at {as_of}.",
                history_from=kept_from,
            )
        return None if found is None or is_deleted(found[1]) else (found, following)

    def _told(
        self,
        headers: list[Header],
        key: bytes,
        as_of: int,
        version: tuple[Pair, Pair | None] | None,
    ) -> Answer:
        if version is None:
            problem = NotFound(
                "key-not-found", f"View {self.view.name} had no such key at {as_of}."
            )
            return Answer(404, problem.headers() + headers, problem.body())
        found, following = version
        body = b'{"key":%b,"value":%b,"valid_from":%d,"valid_to":%b}' % (
            self.view.key_codec.to_json(key),
            self.view.value_codec.to_json(found[1][ENTRY_HEAD_SIZE:]),
            *validity(cast(VersionedLayout, self.view.layout), found, following),
        )
        # the next version changes `valid_to`
        return Answer(200, [*headers, JSON, etag_of(body, AS_JSON)], body)
