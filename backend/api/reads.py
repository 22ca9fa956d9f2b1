"""What a read means: from a view and a key to an answer, or to whom to ask instead.

The hot path. Between request and RocksDB it must not log, lock, parse a header, copy a value more
than once or decode one: a JSON value was validated when it was stored, and is passed on as bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.api.answer import JSON, Answer, Header, freshness_headers
from backend.api.representations import JSON as AS_JSON
from backend.api.representations import VARY, represented
from backend.api.serving import ReadCounts, Serving
from backend.core.errors import (
    BadRequest,
    KeyTooLong,
    NotFound,
    Problem,
    StoreClosedError,
    StoreError,
    Unavailable,
)
from backend.core.expiry import horizon
from backend.core.partitioner import partition_of, partitions_of_batch
from backend.core.records import ENTRY, ENTRY_HEAD_SIZE, decode_entry, entry_offset
from backend.core.topology import ACTIVE, ROLES, Member
from backend.core.views import ANY_PARTITION, View
from backend.ingest.held import HeldPartition


class Elsewhere(Exception):
    """Others hold the key's partition, and may answer better: `members`, in the order in which to
    ask them. `why` is what this instance says itself, should none of them answer."""

    def __init__(self, members: Sequence[Member], why: Unavailable) -> None:
        super().__init__(members)
        self.members = members
        self.why = why

    @property
    def member(self) -> Member:
        """The first to ask."""
        return self.members[0]


# Waiting does not help: these need a person.
HOPELESS = frozenset(("mis-partitioned", "repartitioned"))


class Everywhere(Unavailable):
    """The key may be in any partition: only all of them together can answer for it.

    Whoever cannot ask them says 503.
    """

    def __init__(self, view: View, key: bytes) -> None:
        self.key = key
        super().__init__(
            "mis-partitioned",
            f'Topic {view.topic} has records where partitioner "{view.partitioner}" would not put '
            f"them: this key may be in another partition. Set the partitioner of view "
            f'{view.name} to that of the producers, or to "none".',
        )


@dataclass(frozen=True)
class ReadOptions:
    """What a reader may ask for beside the key. Offsets by partition, the first that may be missing
    is one more; staleness in s, `as_of` in ms. By default whoever holds the partition and is
    answerable answers; `stale_allowed`: even one that is not; `active_only`: the active alone."""

    stale_allowed: bool = False
    active_only: bool = False
    min_offsets: Mapping[int, int] | None = None
    max_lag: int | None = None
    max_staleness: float | None = None
    as_of: int | None = None
    redirect: bool = False
    representation: str = AS_JSON

    @property
    def plain(self) -> bool:
        """Whether any holder of data as they are now will do, with JSON."""
        return self == ReadOptions(self.stale_allowed)

    @property
    def bounded(self) -> bool:
        return (
            self.min_offsets is not None
            or self.max_lag is not None
            or self.max_staleness is not None
        )


PLAIN = ReadOptions()


class ViewReads:
    """Point reads of one view, from what this instance holds."""

    def __init__(self, view: View, serving: Serving) -> None:
        self.view = view
        self.counts: ReadCounts = serving.counts[view.name]
        self._serving = serving
        self._held = serving.held.of_view(view.name)
        self._facts = serving.watcher.latest
        anywhere = view.partitioner == ANY_PARTITION
        self._partition_of = None if anywhere else partition_of(view.partitioner)
        self._from_text = view.key_codec.from_text
        plain = view.store == "key-value" and view.key_codec.keeps_bytes
        self._stored_key = ENTRY.__add__ if plain else view.layout.stored_key
        self._expires = view.retention is not None
        self._key_json = view.key_codec.to_json
        self.value_json = view.value_codec.to_json
        self.max_key_bytes = serving.settings.max_key_bytes
        self._trusted_for = serving.settings.ends_trusted_for
        me = serving.settings.instance_id
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

        Elsewhere if another instance is active for it; Unavailable if nobody can answer now; a
        miss is NotFound.
        """
        held = self.holder(key, options)
        # before the look-up: what is applied meanwhile is not in the answer, nor may Offset say so
        headers = self.state_headers(held)
        position = held.progress.position
        stored = self._stored(held, key)
        if stored is None:
            problem = NotFound(
                "key-not-found",
                f"View {self.view.name} has no such key, as of offset {position} of "
                f"partition {held.partition}.",
            )
            return Answer(404, problem.headers() + headers, problem.body())
        if options.representation != AS_JSON:
            return self._represented(held, stored, headers, options.representation)
        value = self.value_json(stored[ENTRY_HEAD_SIZE:])
        self.counts.found += 1
        headers += (JSON, VARY, self.etag(held, stored))
        return Answer(200, headers, b'{"key":%b,"value":%b}' % (self._key_json(key), value))

    def value(self, key: bytes) -> bytes | None:
        """What `read` says of a plain question, without all that stands around it: the value as
        JSON, or None."""
        stored = self._stored(self.holder(key, PLAIN), key)
        if stored is None:
            return None
        value = self.value_json(stored[ENTRY_HEAD_SIZE:])
        self.counts.found += 1
        return value

    def _stored(self, held: HeldPartition, key: bytes) -> bytes | None:
        """The key's entry, or the certainty that there is none, which is counted."""
        try:
            stored = self.look_up(held, key)
        except (StoreClosedError, StoreError) as e:
            raise unreadable(held, e) from None
        if stored is None:
            self.refuse_doubtful(key)
            self.counts.missed += 1
        return stored

    def _represented(
        self, held: HeldPartition, stored: bytes, headers: list[Header], kind: str
    ) -> Answer:
        """The value alone, as the reader asked for it."""
        raw = stored[ENTRY_HEAD_SIZE:]
        more, body = represented(kind, raw, self.view.value_codec)
        self.counts.found += 1
        return Answer(200, [*headers, *more, self.etag(held, stored, kind.encode())], body)

    def etag(self, held: HeldPartition, stored: bytes, kind: bytes = b"json") -> Header:
        return (b"etag", b'"%b-%d-%b"' % (held.etag_prefix, entry_offset(stored), kind))

    def look_up(self, held: HeldPartition, key: bytes) -> bytes | None:
        """The stored bytes of the key's entry; None where there is none, or it has expired."""
        stored = held.store.get(self._stored_key(key))
        if stored is not None and self._expires:
            until = horizon(self.view, held.store.stream_time)
            if decode_entry(stored).timestamp < until:
                return None
        return stored

    def look_up_many(self, held: HeldPartition, keys: Sequence[bytes]) -> list[bytes | None]:
        """`look_up` of each; where one of them fails, all do."""
        found = held.store.get_many(list(map(self._stored_key, keys)))
        if self._expires:
            until = horizon(self.view, held.store.stream_time)
            return [s if s is None or decode_entry(s).timestamp >= until else None for s in found]
        return found

    def holder(self, key: bytes, options: ReadOptions) -> HeldPartition:
        """The open store partition of the key, if it may answer."""
        return self.holder_of(self.partition(key), options)

    def holder_of(self, partition: int, options: ReadOptions) -> HeldPartition:
        """The open store partition, if it may answer; else Elsewhere or Unavailable."""
        held = self._held.get(partition)
        if (
            held is not None
            and (held.progress.answerable or options.stale_allowed)
            and not (options.active_only and held.role != ACTIVE)
        ):
            if options.bounded:
                why = self._beyond_bounds(held, options)
                if why is not None:
                    raise self._others(partition, why, only_if=held.role != ACTIVE)
            return held
        if held is None:
            raise self._others(partition, self._not_held(partition))
        if options.active_only and held.role != ACTIVE:
            why = Unavailable(
                "not-active", f"This instance is {held.role} for partition {partition}, not active."
            )
            raise self._others(partition, why, most=1)
        raise self._others(
            partition,
            Unavailable(
                "catching-up",
                f"Partition {partition} of view {self.view.name} is being read in: it is at "
                f"offset {held.progress.position} of {held.progress.goal}.",
                partition=partition,
                position=held.progress.position,
                goal=held.progress.goal,
            ),
            only_if=not options.active_only,
        )

    def _not_held(self, partition: int) -> Unavailable:
        name = self.view.name
        holders = self._serving.topology.holders_of(name, partition)
        if not holders:
            return Unavailable("nobody", f"No instance holds partition {partition} of view {name}.")
        if self._serving.me in holders:
            return Unavailable(
                "catching-up", f"Partition {partition} of view {name} is being opened."
            )
        return Unavailable(
            "not-here",
            f"{', '.join(each.id for each in holders)} hold partition {partition} of view {name} "
            f"as of epoch {self._serving.topology.epoch}.",
        )

    def _others(
        self, partition: int, why: Unavailable, only_if: bool = True, most: int | None = None
    ) -> Elsewhere | Unavailable:
        """To whom to go with a question that cannot be answered here; `why`, if to nobody."""
        if not only_if:
            return why
        others = self._serving.others(self.view.name, partition)[:most]
        return Elsewhere(others, why) if others else why

    def _beyond_bounds(self, held: HeldPartition, options: ReadOptions) -> Unavailable | None:
        """Why the partition is farther behind than the reader can use; None if it is not."""
        partition, position = held.partition, held.progress.position
        wanted = (options.min_offsets or {}).get(partition, -1)
        if position <= wanted:
            return Unavailable(
                "not-up-to-offset",
                f"Partition {partition} is at offset {position}, and {wanted} is to be in the "
                f"answer.",
                partition=partition,
                position=position,
            )
        now = time.monotonic()
        if options.max_lag is not None:
            lag = held.progress.lag(now, self._trusted_for)
            if lag is None or lag > options.max_lag:
                return Unavailable(
                    "too-far-behind",
                    f"Partition {partition} is {'unknown' if lag is None else lag} records behind; "
                    f"max_lag is {options.max_lag}.",
                )
        if options.max_staleness is not None:
            staleness = held.progress.staleness(now)
            if staleness is None or staleness > options.max_staleness:
                known = "of unknown age" if staleness is None else f"{staleness:.3f} s old"
                return Unavailable(
                    "too-stale",
                    f"Partition {partition} is {known}; max_staleness is "
                    f"{options.max_staleness} s.",
                )
        return None

    def partition(self, key: bytes) -> int:
        """Where the key belongs; Unavailable where that cannot be told."""
        placed = self._serving.placed(self.view)
        count = len(placed.active)
        if self._partition_of is None or placed.mis_partitioned:
            raise Everywhere(self.view, key)
        partition = self._partition_of(key, count)
        facts = self._facts.get(self.view.topic)
        if placed.built_partitions not in (count, 0):
            self._refuse_moved(key, partition, count, placed.built_partitions)
        if facts is not None and facts.partitions != count:
            self._refuse_moved(key, partition, count, facts.partitions)
        return partition

    def partitions(self, keys: Sequence[bytes]) -> list[int] | None:
        """Where each key belongs; None where only `partition` can tell, key by key. Unavailable."""
        placed = self._serving.placed(self.view)
        count = len(placed.active)
        facts = self._facts.get(self.view.topic)
        if (
            self._partition_of is None
            or placed.mis_partitioned
            or placed.built_partitions not in (count, 0)
            or (facts is not None and facts.partitions != count)
        ):
            return None
        found: list[int] = partitions_of_batch(self.view.partitioner, keys, count).tolist()
        return found

    def _refuse_moved(self, key: bytes, partition: int, count: int, other: int) -> None:
        """Partitions were added: a key has its place if it is the same one under both counts."""
        assert self._partition_of is not None
        if self._partition_of(key, other) != partition:
            raise Unavailable(
                "repartitioned",
                f"Topic {self.view.topic} has had {min(count, other)} and {max(count, other)} "
                f"partitions, and the key belongs to different ones: it cannot be told which has "
                f"its latest record. Rebuild view {self.view.name} (remove its data folder) once "
                f"its producers have written the key again.",
            )

    def refuse_doubtful(self, key: bytes) -> None:
        """Everywhere: a record where the partitioner would not put it makes every miss a guess."""
        if self._serving.misplaced(self.view) or any(
            held.identity.mis_partitioned for held in list(self._held.values())
        ):
            raise Everywhere(self.view, key)

    def state_headers(self, held: HeldPartition) -> list[Header]:
        progress = held.progress
        now = time.monotonic()
        lag = progress.lag(now, self._trusted_for)
        staleness = progress.staleness(now)
        return [
            (b"partition", held.partition_header),
            (b"offset", b"%d" % progress.position),
            *freshness_headers(lag, staleness),
            self._served_by[held.role],
        ]


class WrongStoreReads(ViewReads):
    """Point reads of a view whose keys have many entries: refused, and told where those are."""

    def read(self, key: bytes, options: ReadOptions = PLAIN) -> Answer:
        resource = f"{self.view.store}s"
        raise BadRequest(
            "wrong-store",
            f"View {self.view.name} has {resource}, not one value a key: ask "
            f"/views/{self.view.name}/keys/{{key}}/{resource}.",
        )


def unreadable(held: HeldPartition, error: StoreClosedError | StoreError) -> Unavailable:
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
