"""Point reads: keys of a view are resolved to entries of this instance's store partitions.

Every kind of request for keys (one key, many coalesced, a batch, from another instance) resolves
them here. They differ only in how they write the outcome:

    Resolved     the store partition can answer: an entry (found) or None (missing) for each key
    Unresolved   it cannot: NotOwner (other instances can), PartitionUnknown (only all partitions
                 together can), Unavailable (no instance can now) or BadRequest

This is the hot path. Between the request and RocksDB it must not log, lock, parse headers, decode
a value or copy it more than once: a JSON value was validated when it was stored, and is sent as
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, cast

from backend.ingest.protocols import Store
from backend.ingest.store_partitions import StorePartition
from backend.instance.context import QueryContext
from backend.queries.key_texts import KeyTexts
from backend.queries.routing import OCTETS, PLAIN, KeyRouting, NotOwner, ReadOptions
from backend.queries.scans.merged_entries import PlacedEntries
from backend.storage.bounded_reads import SLICE, ReadBudget
from backend.telemetry.telemetry import ReadCounts
from backend.wire.point_batch import key_format_of
from model.machine.clock import boot_time
from model.problems import (
    KeyTooLong,
    NotFound,
    Problem,
    StoreClosedError,
    StoreError,
    Unavailable,
)
from model.records import ENTRY, decode_entry, is_tombstone, place, unplace
from model.rows.unreadable import (
    Unreadable,
    UnreadableEntry,
    ValueUnreadable,
    bytes_of,
    settle,
)
from model.views import View

_T = TypeVar("_T")

Entry = bytes
"""What is stored for a key: ENTRY_HEAD_SIZE bytes of head, then the record's value."""


class State(NamedTuple):
    """The state of a store partition just before a look-up: the next offset to apply, the lag in
    records and the staleness in s (None: unknown). Records that are applied later do not count."""

    store_partition: StorePartition
    position: int
    lag: int | None
    staleness: float | None


class Resolved(NamedTuple):
    """Entries of one store partition. `numbers`: the indexes of their keys in the list of keys. An
    entry is None if the key is missing."""

    numbers: Sequence[int]
    state: State
    entries: Sequence[Entry | None]


class Unresolved(NamedTuple):
    """Keys for which this instance cannot answer, and why."""

    numbers: Sequence[int]
    why: NotOwner | Problem


class ViewReads(KeyTexts, KeyRouting):
    """Point reads of one view, from the store partitions of this instance."""

    def __init__(self, view: View, context: QueryContext) -> None:
        KeyRouting.__init__(self, view, context)
        KeyTexts.__init__(self, view, context.constants.max_key_bytes)
        self.counts: ReadCounts = context.telemetry.counts[view.name]
        self.other_key = view.key_codec.other_key
        self.key_format = key_format_of(view)
        plain = view.kind.one_entry_per_key and view.key_codec.keeps_bytes
        self._stored_key = ENTRY.__add__ if plain else view.layout.stored_key
        # those of keys after 0x01, which most views store as they are
        self._entries_of = self._stored_entries if plain else self._entries_of_keys
        self._expires = view.retention is not None
        self.key_json = view.key_codec.to_json
        self.value_json: Callable[[bytes], bytes] = view.value_codec.to_json
        self._max_stored_key_bytes = self.max_key_bytes + len(ENTRY)

    def resolve(
        self, keys: Sequence[bytes], options: ReadOptions = PLAIN, budget: ReadBudget | None = None
    ) -> list[Resolved | Unresolved]:
        """Outcomes by store partition; each key is in one of them. With a `budget`, some entries
        may be NOT_READ.

        The partitions of all keys are computed together, and each store partition is read once.
        It takes about 3 µs per key: callers with many keys yield to the event loop in between.
        """
        all_numbers = range(len(keys))
        try:
            partitions = self.partitions(keys)
        except Unavailable as unavailable:
            return [Unresolved(all_numbers, unavailable)]
        if partitions is None:
            return self._resolve_one_by_one(all_numbers, keys, options, budget)
        numbers_of: dict[int, list[int]] = {}
        for number, partition in enumerate(partitions):
            numbers_of.setdefault(partition, []).append(number)
        outcomes: list[Resolved | Unresolved] = []
        for partition, numbers in numbers_of.items():
            try:
                partition_keys = [keys[number] for number in numbers]
                outcomes.append(
                    self._in_partition(partition, numbers, partition_keys, options, budget)
                )
            except NotOwner as owners:
                outcomes.append(Unresolved(numbers, owners))
            except Problem as problem:
                if len(numbers) > 1 and _may_differ(problem):
                    outcomes += self._resolve_one_by_one(numbers, keys, options, budget)
                else:
                    outcomes.append(Unresolved(numbers, problem))
        return outcomes

    def resolve_one(self, key: bytes, options: ReadOptions = PLAIN) -> tuple[State, Entry | None]:
        """`resolve` of one key; raises NotOwner or Problem if it is unresolved."""
        store_partition = self.holder_of(self.partition(key, options), options)
        state = self._state_of_one(store_partition)
        try:
            entry = self.look_up(store_partition.store, key, options.representation == OCTETS)
        except UnreadableEntry as e:
            raise self._value_unreadable(state, e) from None
        except (StoreClosedError, StoreError) as e:
            raise self.store_problem(store_partition, e) from None
        if entry is None:
            self.refuse_doubtful([key])
        return state, entry

    def _resolve_one_by_one(
        self,
        numbers: Sequence[int],
        keys: Sequence[bytes],
        options: ReadOptions,
        budget: ReadBudget | None,
    ) -> list[Resolved | Unresolved]:
        outcomes: list[Resolved | Unresolved] = []
        for number in numbers:
            try:
                state, entry = self.resolve_one(keys[number], options)
                if budget is not None:
                    entry = budget.take(entry)
                outcomes.append(Resolved((number,), state, (entry,)))
            except (NotOwner, Problem) as why:
                outcomes.append(Unresolved((number,), why))
        return outcomes

    def _in_partition(
        self,
        partition: int,
        numbers: Sequence[int],
        keys: Sequence[bytes],
        options: ReadOptions,
        budget: ReadBudget | None,
    ) -> Resolved:
        store_partition = self.holder_of(partition, options)
        state = self._state(store_partition)
        try:
            if budget is None:
                entries = self.look_up_many(store_partition.store, keys)
            else:
                entries = budget.read(partial(self.look_up_many, store_partition.store), keys)
        except UnreadableEntry as e:
            raise self._value_unreadable(state, e) from None
        except (StoreClosedError, StoreError) as e:
            raise self.store_problem(store_partition, e) from None
        if None in entries:
            self.refuse_doubtful(
                [key for key, entry in zip(keys, entries, strict=True) if entry is None]
            )
        return tuple.__new__(Resolved, (numbers, state, entries))

    def read_entries(
        self, key: bytes, options: ReadOptions, read: Callable[[Store], _T]
    ) -> tuple[State, _T]:
        """What `read` finds among all entries of a key: its history, or an older version.

        NotOwner, Problem as `resolve_one`.
        """
        store_partition = self.holder(key, options)
        # the result would lack records in other partitions
        self.refuse_doubtful([key])
        state = self._state_of_one(store_partition)
        try:
            placed = PlacedEntries(store_partition.store, store_partition.partition)
            return state, read(cast(Store, placed))
        except ValueUnreadable as problem:
            problem.state = state
            raise
        except (StoreClosedError, StoreError) as e:
            raise self.store_problem(store_partition, e) from None

    def resolve_in(
        self, partition: int, keys: list[bytes], is_certain: bool, now: float, max_bytes: int
    ) -> tuple[State, list[Entry | None], list[int] | None]:
        """`resolve_one` for several keys of this partition at `now` (`boot_time`); `keys` are
        record keys, each after 0x01. Returns the entries and the indexes of their keys (None: all
        keys), without keys that other partitions may have, too. Raises NotOwner, Problem. Call this
        only if `partition_count` returns the number from which the partition was computed;
        `is_certain` is the second part of its result. `max_bytes`: the limit for the entries
        of many keys; other entries are NOT_READ.

        When a request arrives, neither code nor data are in the processor's caches, so each call of
        another function takes some 4 µs. Therefore this function calls few others, and repeats the
        rule of `holder_of` for PLAIN.
        """
        numbers: list[int] | None = None
        if is_certain:
            if max(map(len, keys)) > self._max_stored_key_bytes:
                raise KeyTooLong("key-too-long", "A key is too long.")
            store_partition = self._store_partitions.get(partition)
            if store_partition is None or not store_partition.progress.answerable:
                store_partition = self.holder_of(partition, PLAIN)
            state = self._state(store_partition, now)
        else:
            store_partition = self.holder_of(partition, PLAIN)
            state = self._state_of_one(store_partition, now)
            here = self.in_one_partition([key[1:] for key in keys], partition)
            numbers = [i for i in here if len(keys[i]) <= self._max_stored_key_bytes]
            if not numbers:
                return state, [], numbers
            keys = [keys[i] for i in numbers]
        try:
            if len(keys) <= SLICE:
                entries = self._entries_of(store_partition.store, keys)
            else:
                read = partial(self._entries_of, store_partition.store)
                entries = ReadBudget(max_bytes).read(read, keys)
        except (StoreClosedError, StoreError) as e:
            raise self.store_problem(store_partition, e) from None
        except (UnreadableEntry, Unavailable):
            entries, here = self._without_unreadable(store_partition, keys, max_bytes)
            keys = [keys[i] for i in here]
            numbers = here if numbers is None else [numbers[i] for i in here]
        if None in entries:
            entries, kept = self._without_doubtful(keys, entries)
            if kept is not None:
                numbers = kept if numbers is None else [numbers[i] for i in kept]
        return state, entries, numbers

    def _without_unreadable(
        self, store_partition: StorePartition, keys: list[bytes], max_bytes: int
    ) -> tuple[list[Entry | None], list[int]]:
        """The entries, and the indexes of their keys, without those that cannot be read."""
        budget, store = ReadBudget(max_bytes), store_partition.store
        entries: list[Entry | None] = []
        kept: list[int] = []
        for index, key in enumerate(keys):
            try:
                entries.append(budget.take(self._entries_of(store, [key])[0]))
            except (UnreadableEntry, Unavailable):
                continue
            except (StoreClosedError, StoreError) as e:
                raise self.store_problem(store_partition, e) from None
            kept.append(index)
        return entries, kept

    def _without_doubtful(
        self, keys: list[bytes], entries: list[Entry | None]
    ) -> tuple[list[Entry | None], list[int] | None]:
        """The entries, and the indexes of their keys (None: all keys), without the keys that were
        not found and may still not be missing."""
        keyed_entries = zip(keys, entries, strict=True)
        if self._are_missing([key[1:] for key, entry in keyed_entries if entry is None]):
            return entries, None
        kept = [
            index
            for index, entry in enumerate(entries)
            if entry is not None or self._are_missing([keys[index][1:]])
        ]
        return [entries[index] for index in kept], kept

    def _are_missing(self, keys: list[bytes]) -> bool:
        """Whether all of these keys, which were not found, are missing: no other partition may have
        them, they are keys of the view's format, and their texts mean no other keys."""
        try:
            self.refuse_doubtful(keys)
            if self._is_text:  # `parse_raw_key` of all of them
                b" ".join(keys).decode()
                return True
            for key in keys:
                self.parse_raw_key(key)
        except (Problem, UnicodeDecodeError):
            return False
        return not any(map(self.other_key, keys))

    def _entries_of_keys(self, store: Store, keys: list[bytes]) -> list[Entry | None]:
        """As `_stored_entries`, for record keys that are each after 0x01. Raises BadRequest."""
        return self.look_up_many(store, [self.parse_raw_key(key[1:]) for key in keys])

    def _state(self, store_partition: StorePartition, now: float | None = None) -> State:
        progress = store_partition.progress
        if now is None:
            now = boot_time()
        lag, staleness = progress.freshness(now, self._trusted_for)
        # half the time of State(…)
        return tuple.__new__(State, (store_partition, progress.position, lag, staleness))

    def _state_of_one(self, store_partition: StorePartition, now: float | None = None) -> State:
        """The state for a key that is resolved by itself. Its lag and staleness are unknown for a
        moment after partitions were added, because no instance reads the new ones yet."""
        state = self._state(store_partition, now)
        return state._replace(lag=None, staleness=None) if self.is_growing() else state

    def state_of(self, key: bytes) -> State:
        """The state of the key's store partition, to follow the key. Raises NotOwner,
        Unavailable."""
        partition = self.partition(key)
        self.refuse_doubtful([key])  # its changes may be in another partition
        self.refuse_moving(key, partition)
        return self._state(self.holder_of(partition, PLAIN))

    def missing(self, state: State) -> NotFound:
        """The problem for a missing key. It does not name the key."""
        return NotFound(
            "key-not-found",
            f"View {self.view.name} has no such key, as of offset {state.position} of "
            f"partition {state.store_partition.partition}.",
        )

    def look_up(self, store: Store, key: bytes, as_bytes: bool = False) -> Entry | None:
        """The key's entry; None if it is missing, deleted or expired. UnreadableEntry, unless it is
        read `as_bytes`."""
        stored = store.get(self._stored_key(key))
        if stored is None:
            return None
        if self._expires:
            until = self.view.kind.horizon(self.view, store.stream_time)
            if decode_entry(stored).timestamp < until:
                return None
        return stored if stored[8] < 0x80 else self._marked_entry(stored, as_bytes)

    def look_up_many(self, store: Store, keys: Sequence[bytes]) -> list[Entry | None]:
        """`look_up` of each; raises if one of them fails."""
        return self._stored_entries(store, list(map(self._stored_key, keys)))

    def _stored_entries(self, store: Store, stored_keys: list[bytes]) -> list[Entry | None]:
        entries = store.get_many(stored_keys)
        if self._expires:
            until = self.view.kind.horizon(self.view, store.stream_time)
            entries = [
                s if s is None or decode_entry(s).timestamp >= until else None for s in entries
            ]
        # `is_tombstone` inlined: the call would take most of the time
        for index, stored in enumerate(entries):
            if stored is not None and stored[8] >= 0x80:
                entries[index] = self._marked_entry(stored)
        return entries

    def _marked_entry(self, stored: bytes, as_bytes: bool = False) -> Entry | None:
        """The entry in stored bytes that are not a plain value; None for a tombstone.
        Raises UnreadableEntry, SchemaNotYet."""
        if is_tombstone(stored):
            return None
        placed = place(stored, 0)
        if as_bytes:
            return bytes_of(self.view, placed)
        value = settle(self.view, placed)
        if isinstance(value, Unreadable):
            raise UnreadableEntry(value, unplace(placed)[1])
        return value

    def _value_unreadable(self, state: State, error: UnreadableEntry) -> ValueUnreadable:
        unreadable = error.unreadable._replace(partition=state.store_partition.partition)
        problem = ValueUnreadable(self.view, unreadable)
        problem.state = state
        return problem

    def store_problem(
        self, store_partition: StorePartition, error: StoreClosedError | StoreError
    ) -> Problem:
        """The problem for the client. Ingest rebuilds a store that is damaged."""
        if isinstance(error, StoreClosedError):
            return Unavailable("not-here", "This instance has just closed the key's partition.")
        store_partition.read_failed(error)
        return Unavailable("store-damaged", "The store partition cannot be read.")


def _may_differ(problem: Problem) -> bool:
    """Whether other keys of the partition may have another outcome. In a mispartitioned view, and
    after partitions were added, only a missing key is uncertain. A damaged block is only one part
    of the store."""
    return problem.code in (
        "mis-partitioned", "repartitioned", "not-here", "store-damaged", "store-failed",
        "value-unreadable", "schema-unavailable",
    )  # fmt: skip


def count_refusal(counts: ReadCounts, problem: Problem) -> None:
    """Counts a read that was refused, as unavailable or as bad."""
    if problem.status == 503:
        counts.unavailable += 1
    else:
        counts.refused += 1
