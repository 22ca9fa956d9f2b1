"""Reads of a versioned store by key: the latest version, or the one that was valid at a time.

Source: KIP-889 (versioned state stores).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

from backend.ingest.protocols import Store
from backend.queries.point import Entry, State, ViewReads
from backend.queries.routing import ReadOptions
from model.kinds.versioned import VersionedLayout, validity, version_at
from model.problems import Gone
from model.records import is_tombstone, is_unreadable
from model.rows.unreadable import Unreadable, ValueUnreadable, settle


class Version(NamedTuple):
    """An entry, and from when (ms) until when it is valid; None: it is the latest."""

    entry: Entry
    valid_from: int
    valid_to: int | None


class VersionedReads(ViewReads):
    """Point reads of a versioned view."""

    def look_up(self, store: Store, key: bytes, as_bytes: bool = False) -> Entry | None:
        version = version_at(store, cast(VersionedLayout, self.view.layout), key, None)
        if version is None:
            return None
        return version[1] if version[1][8] < 0x80 else self._marked_entry(version[1], as_bytes)

    def look_up_many(self, store: Store, keys: Sequence[bytes]) -> list[Entry | None]:
        return [self.look_up(store, key) for key in keys]

    def resolve_version(
        self, key: bytes, options: ReadOptions, as_of: int
    ) -> tuple[State, Version | None]:
        """The version that was valid at `as_of` (ms); NotOwner, Problem as `resolve_one`; Gone if
        `as_of` is before the times that the store keeps, and the version is not known."""
        return self.read_entries(key, options, partial(self.version_at, key, as_of))

    def version_at(self, key: bytes, as_of: int, store: Store) -> Version | None:
        """As `resolve_version`, from a store that has all versions of the key."""
        layout = cast(VersionedLayout, self.view.layout)
        version = version_at(store, layout, key, as_of)
        end = layout.time_range(key, None, None)[1]
        following = version and next(store.scan(version[0] + b"\0", end), None)
        kept_from = self.view.kind.horizon(self.view, store.stream_time)
        if as_of < kept_from and (version is None or following is not None):
            raise Gone(
                "outside-history",
                f"View {self.view.name} keeps what was valid from {kept_from} on, not at {as_of}.",
                history_from=kept_from,
            )
        if version is None or is_tombstone(version[1]):
            return None
        return Version(self._settled(version[1]), *validity(layout, version, following))

    def _settled(self, stored: bytes) -> Entry:
        """An entry that can be read. Raises ValueUnreadable, SchemaNotYet."""
        if not is_unreadable(stored):
            return stored
        value = settle(self.view, stored)
        if isinstance(value, Unreadable):
            raise ValueUnreadable(self.view, value)
        return value
