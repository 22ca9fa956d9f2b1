"""The answers of a view in plain Python: the specification that every answer is compared with.

A view is a fold over the records of its topic, partition by partition, in offset order. `Partition`
is the content of one partition after some records, as a dict. `Table` is the state of a view at one
moment, with a method for each kind of query. The code is simple, not fast, and independent of the
product: a view is its declaration, a key is its record bytes.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from math import copysign
from typing import Any, NamedTuple

from model.views import View

Item = dict[str, Any]
Place = tuple[Any, ...]
"""The sort key of an item in its listing."""
Listing = list[tuple[Place, Item]]

FOREVER = float("inf")
_JANUARY_ENDS_MS = (31 * 24 - 1) * 3_600_000  # in Berlin in 1970, where all times of tests are


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def number_of(raw: bytes, kind: str) -> Any:
    """The number in the format of Kafka's serializers: big-endian."""
    return struct.unpack({"int32": ">i", "int64": ">q", "float64": ">d"}[kind], raw)[0]


def json_of(raw: bytes, kind: str) -> Any:
    """Record bytes of a format, as answers show them."""
    if kind == "none":
        return None
    if kind in ("string", "uuid"):
        return raw.decode()
    if kind == "bytes":
        return base64url(raw)
    if kind == "json":
        return json.loads(raw)
    number = number_of(raw, kind)
    if kind == "float64" and (number != number or number in (FOREVER, -FOREVER)):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    return number


def rank_of_key(raw: bytes, kind: str) -> Any:
    """The sort key of a key. Numbers sort as numbers (-0.0 before 0.0), all others by their
    bytes."""
    if kind not in ("int32", "int64", "float64"):
        return raw
    number = number_of(raw, kind)
    return number, copysign(1, number)


@dataclass(frozen=True)
class Record:
    """A record as its producer sees it. `offset` is that in its partition."""

    offset: int
    key: bytes  # without times
    at: tuple[int, ...]  # window: start, sequence; session: end, start; else nothing
    value: bytes | None  # None deletes
    timestamp: int
    sound: bool = True  # False: not in the view's formats, so it is a dead letter
    raw_key: bytes | None = b""  # of a record in an invalid format
    is_of_value: bool = False  # only the value is not sound: the entry is unreadable

    def record_key(self, view: View) -> bytes | None:
        """As in changelogs of Kafka Streams; for `window_key = "topic"`, as `to()` writes it."""
        if not self.sound and not self.is_of_value:
            return self.raw_key
        if view.store == "window":
            start, sequence = self.at
            tail = struct.pack(">qi", start, sequence)
            return self.key + (tail if view.window_key == "changelog" else tail[:8])
        if view.store == "session":
            return self.key + struct.pack(">qq", *self.at)
        return self.key


class Entry(NamedTuple):
    """The stored part of a record. A delete has no value. `unreadable`: the partition and offset of
    a record whose value is not in the view's format."""

    timestamp: int
    offset: int
    value: bytes | None
    time: int  # the time from which retention counts
    unreadable: Item | None = None

    def shown(self, view: View) -> Item:
        """The last member of an item: `value` or `unreadable`."""
        if self.unreadable is not None:
            return {"unreadable": self.unreadable}
        return {"value": json_of(self.value or b"", view.value)}

    @property
    def age(self) -> tuple[int, int]:
        """Of two entries in two partitions, the one with the greater age counts."""
        return self.timestamp, self.offset


class Version(NamedTuple):
    """`until`: the start of the next version, if there is one."""

    since: int
    until: int | None
    entry: Entry

    def was_valid(self, moment: float) -> bool:
        return self.since <= moment and (self.until is None or moment < self.until)


@dataclass
class Partition:
    """The content of one partition after its records up to `position`.

    An entry belongs to a key (key-value, global), to a key and a window or session, or to a key and
    the time from which the value or delete is valid (versioned). The *clock* is the greatest time
    of a record. Entries that are older than the clock less the retention have expired.
    """

    view: View
    number: int
    position: int = 0
    clock: int | None = None
    entries: dict[Place, Entry] = field(default_factory=dict)
    dead: int = 0

    @property
    def horizon(self) -> float:
        """The least time that has not expired. A window or session at exactly the retention has
        expired, a record has not: as in Kafka Streams."""
        if self.view.retention is None or self.clock is None:
            return -FOREVER
        return self.clock - self.view.retention + (self.view.store in ("window", "session"))

    def apply(self, record: Record) -> None:
        """Applies the next record. The record with the greatest offset wins, regardless of its
        timestamp. A delete of a version is a version."""
        self.position = record.offset + 1
        if not record.sound:
            self.dead += 1
            if not record.is_of_value:
                return
        store = self.view.store
        time = record.at[0] if store in ("window", "session") else record.timestamp
        self.clock = time if self.clock is None else max(self.clock, time)
        at: tuple[int, ...] = record.at
        if store == "versioned":
            at = (record.timestamp,)
        elif store == "window" and self.view.window_key == "topic":
            at = (record.at[0], 0)
        if time < self.horizon and store == "versioned":
            return
        place = {"partition": self.number, "offset": record.offset}
        unreadable = None if record.sound else place
        entry = Entry(record.timestamp, record.offset, record.value, time, unreadable)
        self.entries[record.key, *at] = entry

    def live(self) -> dict[Place, Entry]:
        """The entries that have not expired; for versions, all, because the one that is valid at
        the horizon may have begun long before."""
        if self.view.store == "versioned":
            return self.entries
        return {at: entry for at, entry in self.entries.items() if entry.time >= self.horizon}


def fold(view: View, number: int, records: Iterable[Record], position: int) -> Partition:
    """The partition after its records below `position`."""
    partition = Partition(view, number)
    for record in records:
        if record.offset < position:
            partition.apply(record)
    partition.position = position
    return partition


@dataclass
class Table:
    """The state of a view at one moment. `partitions`: the state of each, None if it is unknown.
    `anywhere`: whether a key may be in a partition other than the partitioner's."""

    view: View
    partitions: dict[int, Partition | None]
    anywhere: bool = False

    @property
    def _known(self) -> list[Partition]:
        return [each for each in self.partitions.values() if each is not None]

    def only(self, partitions: Iterable[int]) -> Table:
        """Some of the partitions. A query of one key reads only its partition, whose entries expire
        by the clock of that partition."""
        return replace(self, partitions={number: self.partitions[number] for number in partitions})

    @property
    def horizon(self) -> float:
        """The time from which on no partition has expired anything."""
        return max((each.horizon for each in self._known), default=-FOREVER)

    def everything(self) -> dict[Place, Entry]:
        """All entries of all partitions, with deletes. Of an entry in several partitions, the
        newest counts, by timestamp, then offset."""
        found: dict[Place, Entry] = {}
        for partition in self._known:
            for at, entry in partition.live().items():
                if at not in found or entry.age > found[at].age:
                    found[at] = entry
        return found

    def present(self) -> dict[Place, Entry]:
        """All entries except deletes."""
        found = self.everything()
        return {at: entry for at, entry in found.items() if entry.value is not None}

    def latest(self) -> dict[bytes, Entry]:
        """The value of each key, for key-value, global and versioned views: the last version,
        unless it is a delete."""
        if self.view.store in ("key-value", "global"):
            return {at[0]: entry for at, entry in self.present().items()}
        last = {key: entry for (key, _), entry in sorted(self.everything().items())}
        return {key: entry for key, entry in last.items() if entry.value is not None}

    # one key

    def point(self, key: bytes) -> Entry | None:
        """`GET …/keys/{key}`, HEAD, search, an item of a batch: the value, or None (404)."""
        return self.latest().get(key)

    def versions(self, key: bytes) -> list[Version]:
        """All versions of a key with their ends, including deletes."""
        of_key = sorted((at[1], e) for at, e in self.everything().items() if at[0] == key)
        return [
            Version(one[0], None if following is None else following[0], one[1])
            for one, following in zip_longest(of_key, of_key[1:])
        ]

    def as_of(self, key: bytes, moment: int) -> tuple[set[int], Version | None]:
        """`GET …/keys/{key}?as_of=`: the correct statuses, and the version that was valid.

        Before the horizon only the last version is known. If it is a delete, it may have expired.
        """
        valid = next((v for v in self.versions(key) if v.was_valid(moment)), None)
        if moment < self.horizon and (valid is None or valid.until is not None):
            return {410}, None
        if valid is None:
            return {404}, None
        if valid.entry.unreadable is not None:
            return {406}, None
        if valid.entry.value is None:
            return ({404, 410} if moment < self.horizon else {404}), None
        return {200}, valid

    def history(self, key: bytes, first: float, last: float) -> Listing:
        """`GET …/keys/{key}/windows|sessions|versions?from=&to=`: windows that start within the
        bounds, sessions and versions that overlap them, in the order of time."""
        if self.view.store == "versioned":
            return self._history_of_versions(key, first, last)
        if self.view.store == "window":
            listing = self.windows(first, last)
        else:
            listing = self.sessions(first, last)
        mine = json_of(key, self.view.key)
        of_key = [(place[1:], dict(item)) for place, item in listing if place[1] == key]
        for _, item in of_key:
            assert item.pop("key") == mine
        return of_key

    def _history_of_versions(self, key: bytes, first: float, last: float) -> Listing:
        listing: Listing = []
        for since, until, entry in self.versions(key):
            # versions that ended before the horizon are not known
            known_from = first if until is None else max(first, self.horizon)
            overlaps = since <= last and known_from <= last
            if overlaps and (until is None or until > known_from) and entry.value is not None:
                item = {"valid_from": since, "valid_to": until, **entry.shown(self.view)}
                listing.append(((key, since), item))
        return listing

    # the whole view

    def keys(
        self, first: bytes | None = None, last: bytes | None = None, prefix: bytes = b""
    ) -> Listing:
        """`GET …/keys?from=&to=&prefix=`: keys in order; both bounds are included."""
        return [
            (
                (self._rank(key), key),
                {"key": json_of(key, self.view.key), **entry.shown(self.view)},
            )
            for key, entry in sorted(self.latest().items(), key=lambda pair: self._rank(pair[0]))
            if self._within(key, first, last) and key.startswith(prefix)
        ]

    def windows(
        self,
        first: float = -FOREVER,
        last: float = FOREVER,
        key_first: bytes | None = None,
        key_last: bytes | None = None,
    ) -> Listing:
        """`GET …/windows?from=&to=&key_from=&key_to=`: windows that start within the bounds, by
        key, start, sequence."""
        size = self.view.window_size
        month = _JANUARY_ENDS_MS if self.view.window_unit else None
        listing: Listing = []
        for (key, start, sequence), entry in self.present().items():
            if first <= start <= last and self._within(key, key_first, key_last):
                item = {
                    "key": json_of(key, self.view.key),
                    "start": start,
                    "end": month if size is None else start + size,
                    "sequence": sequence,
                    **entry.shown(self.view),
                }
                listing.append(((self._rank(key), key, start, sequence), item))
        return sorted(listing, key=lambda pair: pair[0])

    def sessions(
        self,
        first: float = -FOREVER,
        last: float = FOREVER,
        key_first: bytes | None = None,
        key_last: bytes | None = None,
    ) -> Listing:
        """`GET …/sessions?from=&to=&key_from=&key_to=`: sessions that overlap the bounds, by key,
        end, start."""
        listing: Listing = []
        for (key, end, start), entry in self.present().items():
            if first <= end and start <= last and self._within(key, key_first, key_last):
                item = {
                    "key": json_of(key, self.view.key),
                    "start": start,
                    "end": end,
                    **entry.shown(self.view),
                }
                listing.append(((self._rank(key), key, end, start), item))
        return sorted(listing, key=lambda pair: pair[0])

    def count(self) -> int:
        """`GET …/count?exact=true`: entries, or the keys of a versioned view."""
        return len(self.latest() if self.view.store == "versioned" else self.present())

    def unreadable(self, listing: Listing) -> Item:
        """What a query of values says in addition: the number of those that cannot be read."""
        count = sum("unreadable" in item for _, item in listing)
        return {"unreadable": count} if count else {}

    def top(self, by: str | None, descending: bool, limit: int) -> list[Item]:
        """`GET …/top?by=&order=&limit=`: by the number in that field. Values without a number are
        skipped; equal numbers are in key order."""
        ranked = []
        for (rank, _), item in self.keys():
            number = item.get("value")
            for name in by.split(".") if by else []:
                number = number.get(name) if isinstance(number, dict) else None
            if by is None and self.view.value == "float64" and isinstance(number, str):
                number = None if number == "NaN" else float(number)
            if isinstance(number, int | float) and not isinstance(number, bool):
                ranked.append((-number if descending else number, rank, item))
        return [item for _, _, item in sorted(ranked, key=lambda each: each[:2])[:limit]]

    def _rank(self, key: bytes) -> Any:
        return rank_of_key(key, self.view.key)

    def _within(self, key: bytes, first: bytes | None, last: bytes | None) -> bool:
        return (first is None or self._rank(first) <= self._rank(key)) and (
            last is None or self._rank(key) <= self._rank(last)
        )


def behind(listing: Listing, last: Place | None, descending: bool) -> Listing:
    """The rest of a listing, after the item at `last`."""
    in_order = listing[::-1] if descending else listing
    if last is None:
        return in_order
    return [each for each in in_order if (each[0] < last if descending else each[0] > last)]


def assert_in_order(places: list[Place], descending: bool) -> None:
    """Asserts that the items are in order and none is repeated."""
    for one, other in pairwise(places):
        assert one > other if descending else one < other, (one, other)
