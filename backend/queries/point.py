"""Point reads: from keys of a view to what this instance's store partitions have of them.

Every way to ask for keys (one, many together, in a batch, from another instance) resolves them
here, and differs only in how it writes the outcome:

    Resolved     the store partition answers for these keys: an entry (found) or None (missing)
    Unresolved   it does not: NotOwner (others do), PartitionUnknown (only all partitions together
                 do), Unavailable (nobody can now) or BadRequest

The hot path. Between request and RocksDB it must not log, lock, parse a header, copy a value more
than once or decode one: a JSON value was validated when it was stored, and is passed on as bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from backend.ingest.protocols import Store
from backend.ingest.store_partitions import StorePartition
from backend.instance_context import InstanceContext, ReadCounts
from backend.queries.routing import PLAIN, KeyRouting, NotOwner, ReadOptions
from model.problems import (
    BadRequest,
    KeyTooLong,
    NotFound,
    Problem,
    StoreClosedError,
    StoreError,
    Unavailable,
)
from model.records import ENTRY, decode_entry, is_deleted
from model.views import View

_T = TypeVar("_T")

Entry = bytes
"""What is stored of a key: ENTRY_HEAD_SIZE bytes of head, then the record's value."""


class State(NamedTuple):
    """A store partition right before a look-up, so that it claims nothing that was applied later:
    the next offset to apply, the lag in records and the staleness in s (None: unknown)."""

    store_partition: StorePartition
    position: int
    lag: int | None
    staleness: float | None


class Resolved(NamedTuple):
    """What one store partition has of some of the keys: `numbers` are their places in the list of
    keys; an entry is None where the key is missing."""

    numbers: Sequence[int]
    state: State
    entries: Sequence[Entry | None]


class Unresolved(NamedTuple):
    """Keys for which this instance cannot answer, and why."""

    numbers: Sequence[int]
    why: NotOwner | Problem


class ViewReads(KeyRouting):
    """Point reads of one view, from the store partitions of this instance."""

    def __init__(self, view: View, context: InstanceContext) -> None:
        super().__init__(view, context)
        self.counts: ReadCounts = context.counts[view.name]
        self._from_text = view.key_codec.from_text
        self._is_text = view.key_codec.is_text
        plain = view.kind.one_entry_per_key and view.key_codec.keeps_bytes
        self._stored_key = ENTRY.__add__ if plain else view.layout.stored_key
        self._expires = view.retention is not None
        self.key_json = view.key_codec.to_json
        self.value_json: Callable[[bytes], bytes] = view.value_codec.to_json
        self.max_key_bytes = context.settings.max_key_bytes

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
        """`parse_key` of each; if one of them is refused, all are."""
        if not self._is_text or max(map(len, texts)) > self.max_key_bytes:
            return list(map(self.parse_key, texts))
        try:
            # text is text, joined or not
            b" ".join(texts).decode()
        except UnicodeDecodeError:
            return list(map(self.parse_key, texts))
        return texts

    def parse_raw_key(self, raw: bytes) -> bytes:
        """Record bytes that the client gave as such; BadRequest, KeyTooLong."""
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

    def resolve(
        self, keys: Sequence[bytes], options: ReadOptions = PLAIN
    ) -> list[Resolved | Unresolved]:
        """Outcomes by store partition; each key is in one of them.

        The partitions of all keys are computed together, and each store partition is asked once.
        Some 3 µs a key: callers with many keys give way to others in between.
        """
        everything = range(len(keys))
        try:
            partitions = self.partitions(keys)
        except Unavailable as unavailable:
            return [Unresolved(everything, unavailable)]
        if partitions is None:
            return self._resolve_alone(everything, keys, options)
        numbers_of: dict[int, list[int]] = {}
        for number, partition in enumerate(partitions):
            numbers_of.setdefault(partition, []).append(number)
        found: list[Resolved | Unresolved] = []
        for partition, numbers in numbers_of.items():
            try:
                theirs = [keys[number] for number in numbers]
                found.append(self._in_partition(partition, numbers, theirs, options))
            except NotOwner as others:
                found.append(Unresolved(numbers, others))
            except Problem as problem:
                if len(numbers) > 1 and _may_differ(problem):
                    found += self._resolve_alone(numbers, keys, options)
                else:
                    found.append(Unresolved(numbers, problem))
        return found

    def resolve_one(self, key: bytes, options: ReadOptions = PLAIN) -> tuple[State, Entry | None]:
        """`resolve` of one key; NotOwner, Problem where it is Unresolved."""
        store_partition = self.holder_of(self.partition(key), options)
        state = self._state(store_partition)
        try:
            entry = self.look_up(store_partition.store, key)
        except (StoreClosedError, StoreError) as e:
            raise self.unreadable(store_partition, e) from None
        if entry is None:
            self.refuse_doubtful(key)
        return state, entry

    def _resolve_alone(
        self, numbers: Sequence[int], keys: Sequence[bytes], options: ReadOptions
    ) -> list[Resolved | Unresolved]:
        found: list[Resolved | Unresolved] = []
        for number in numbers:
            try:
                state, entry = self.resolve_one(keys[number], options)
                found.append(Resolved((number,), state, (entry,)))
            except (NotOwner, Problem) as why:
                found.append(Unresolved((number,), why))
        return found

    def _in_partition(
        self, partition: int, numbers: Sequence[int], keys: Sequence[bytes], options: ReadOptions
    ) -> Resolved:
        store_partition = self.holder_of(partition, options)
        state = self._state(store_partition)
        try:
            entries = self.look_up_many(store_partition.store, keys)
        except (StoreClosedError, StoreError) as e:
            raise self.unreadable(store_partition, e) from None
        if None in entries:
            self.refuse_doubtful(keys[entries.index(None)])
        return tuple.__new__(Resolved, (numbers, state, entries))

    def read_entries(
        self, key: bytes, options: ReadOptions, read: Callable[[Store], _T]
    ) -> tuple[State, _T]:
        """What `read` finds among all entries of a key: its history, or an older version.

        NotOwner, Problem as `resolve_one`. None is what `read` finds where the key is missing.
        """
        store_partition = self.holder(key, options)
        # a record in another partition would be missing in the result
        self.refuse_doubtful(key)
        state = self._state(store_partition)
        try:
            return state, read(store_partition.store)
        except (StoreClosedError, StoreError) as e:
            raise self.unreadable(store_partition, e) from None

    def _state(self, store_partition: StorePartition) -> State:
        progress = store_partition.progress
        now = time.monotonic()
        lag, staleness = progress.lag(now, self._trusted_for), progress.staleness(now)
        # as State(…), in half the time
        return tuple.__new__(State, (store_partition, progress.position, lag, staleness))

    def state_of(self, key: bytes) -> State:
        """Of the key's store partition; NotOwner, Unavailable."""
        return self._state(self.holder(key, PLAIN))

    def missing(self, state: State) -> NotFound:
        """The problem of a key that is missing; it does not name the key."""
        return NotFound(
            "key-not-found",
            f"View {self.view.name} has no such key, as of offset {state.position} of "
            f"partition {state.store_partition.partition}.",
        )

    def look_up(self, store: Store, key: bytes) -> Entry | None:
        """The key's entry; None if there is none, it is a delete, or it has expired."""
        stored = store.get(self._stored_key(key))
        if stored is None or is_deleted(stored):
            return None
        if self._expires:
            until = self.view.kind.horizon(self.view, store.stream_time)
            if decode_entry(stored).timestamp < until:
                return None
        return stored

    def look_up_many(self, store: Store, keys: Sequence[bytes]) -> list[Entry | None]:
        """`look_up` of each; where one of them fails, all do."""
        found = store.get_many(list(map(self._stored_key, keys)))
        if self._expires:
            until = self.view.kind.horizon(self.view, store.stream_time)
            found = [s if s is None or decode_entry(s).timestamp >= until else None for s in found]
        # as `is_deleted`: of many, the call would be most of it
        return [s if s is None or s[8] < 0x80 else None for s in found]

    def unreadable(
        self, store_partition: StorePartition, error: StoreClosedError | StoreError
    ) -> Problem:
        """The problem for the client. Ingest rebuilds a store that is damaged."""
        if isinstance(error, StoreClosedError):
            return Unavailable("not-here", "This instance has just closed the key's partition.")
        store_partition.damaged = str(error)
        return Unavailable(
            "store-damaged", "The store partition cannot be read, and is being rebuilt."
        )


class WrongStoreReads(ViewReads):
    """Point reads of a view whose keys have many entries: refused, with where to find those."""

    def resolve(
        self, keys: Sequence[bytes], options: ReadOptions = PLAIN
    ) -> list[Resolved | Unresolved]:
        return [Unresolved(range(len(keys)), self._refusal())]

    def resolve_one(self, key: bytes, options: ReadOptions = PLAIN) -> tuple[State, Entry | None]:
        raise self._refusal()

    def _refusal(self) -> BadRequest:
        resource = self.view.kind.history
        return BadRequest(
            "wrong-store",
            f"View {self.view.name} has {resource}, not one value a key: ask "
            f"/views/{self.view.name}/keys/{{key}}/{resource}.",
        )


def _may_differ(problem: Problem) -> bool:
    """Whether the keys of a partition may have different outcomes: a miss is a guess where a hit is
    not, and one damaged block is not all of the store."""
    return problem.code in ("mis-partitioned", "not-here", "store-damaged", "store-failed")


def count_refusal(counts: ReadCounts, problem: Problem) -> None:
    """Counts an answer that is neither a value nor a miss."""
    if problem.status == 503:
        counts.unavailable += 1
    else:
        counts.refused += 1
