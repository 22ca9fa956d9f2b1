"""What a view answers, said in plain Python: the specification that every answer is held against.

A view is a fold over the records of its topic, partition by partition, in offset order. `Partition`
is what one partition holds after so many records, as a dict; `Table` is a view as one moment shows
it, with a method for each kind of question. Nothing here is made to be fast, and nothing is the
product's: a view is its declaration, a key is its record bytes.
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
"""Where an item stands in its listing: listings are sorted by it."""
Listing = list[tuple[Place, Item]]

FOREVER = float("inf")


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def number_of(raw: bytes, kind: str) -> Any:
    """Kafka's own serializers: big-endian."""
    return struct.unpack({"int32": ">i", "int64": ">q", "float64": ">d"}[kind], raw)[0]


def json_of(raw: bytes, kind: str) -> Any:
    """Record bytes of a format, as they stand in answers."""
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
    """Keys are in the order of their type: numbers as numbers (-0.0 before 0.0), all else by its
    bytes."""
    if kind not in ("int32", "int64", "float64"):
        return raw
    number = number_of(raw, kind)
    return number, copysign(1, number)


@dataclass(frozen=True)
class Record:
    """A record as its producer means it; `offset` is that of its partition."""

    offset: int
    key: bytes  # without times
    at: tuple[int, ...]  # window: start, sequence; session: end, start; else nothing
    value: bytes | None  # None deletes
    timestamp: int
    sound: bool = True  # of the view's formats; what is not is a dead letter, and changes nothing
    raw_key: bytes | None = b""  # of a record that is not sound

    def record_key(self, view: View) -> bytes | None:
        """As in the changelogs of Kafka Streams; of `window_key = "topic"` as its `to()` writes."""
        if not self.sound:
            return self.raw_key
        if view.store == "window":
            start, sequence = self.at
            tail = struct.pack(">qi", start, sequence)
            return self.key + (tail if view.window_key == "changelog" else tail[:8])
        if view.store == "session":
            return self.key + struct.pack(">qq", *self.at)
        return self.key


class Entry(NamedTuple):
    """What is kept of a record: no value is a delete."""

    timestamp: int
    offset: int
    value: bytes | None
    time: int  # what retention goes by

    @property
    def age(self) -> tuple[int, int]:
        """Of two entries in two partitions the greater one counts."""
        return self.timestamp, self.offset


class Version(NamedTuple):
    """`until` is when the next one begins, if there is one."""

    since: int
    until: int | None
    value: bytes | None

    def was_valid(self, moment: float) -> bool:
        return self.since <= moment and (self.until is None or moment < self.until)


@dataclass
class Partition:
    """What one partition holds after its records up to `position`.

    An entry is a key (key-value, global), a key and a window or session, or a key and a moment from
    which on it has a value or none (versioned). The *clock* is the greatest time that a record has
    had; what is older than the clock less the retention has expired, however it came.
    """

    view: View
    number: int
    position: int = 0
    clock: int | None = None
    entries: dict[Place, Entry] = field(default_factory=dict)
    dead: int = 0

    @property
    def horizon(self) -> float:
        """The least time that has not expired. A window or session that is exactly the retention
        behind has expired, a record has not: as in Kafka Streams."""
        if self.view.retention is None or self.clock is None:
            return -FOREVER
        return self.clock - self.view.retention + (self.view.store in ("window", "session"))

    def apply(self, record: Record) -> None:
        """Takes the next record. The last one of an entry counts, in offset order whatever its
        timestamp; a delete of a version is a version."""
        self.position = record.offset + 1
        if not record.sound:
            self.dead += 1
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
        entry = Entry(record.timestamp, record.offset, record.value, time)
        self.entries[record.key, *at] = entry

    def live(self) -> dict[Place, Entry]:
        """Without what has expired; of versions all, for the one that is valid at the horizon may
        have begun long before."""
        if self.view.store == "versioned":
            return self.entries
        return {at: entry for at, entry in self.entries.items() if entry.time >= self.horizon}


def fold(view: View, number: int, records: Iterable[Record], position: int) -> Partition:
    """A partition as its records below `position` make it."""
    partition = Partition(view, number)
    for record in records:
        if record.offset < position:
            partition.apply(record)
    partition.position = position
    return partition


@dataclass
class Table:
    """A view as one moment shows it. `partitions`: of each its state, None where nobody can tell;
    `anywhere`: whether a key may be in any of them, and not in the one of the partitioner alone."""

    view: View
    partitions: dict[int, Partition | None]
    anywhere: bool = False

    @property
    def _known(self) -> list[Partition]:
        return [each for each in self.partitions.values() if each is not None]

    def only(self, partitions: Iterable[int]) -> Table:
        """Some of the partitions. A question about one key is about its own partition, which
        forgets by its own clock, whatever the clocks of the others say."""
        return replace(self, partitions={number: self.partitions[number] for number in partitions})

    @property
    def horizon(self) -> float:
        """From here on every partition has all that there was."""
        return max((each.horizon for each in self._known), default=-FOREVER)

    def everything(self) -> dict[Place, Entry]:
        """All entries of all partitions, deletes too; of one that is in several the newest, by
        timestamp, then offset."""
        found: dict[Place, Entry] = {}
        for partition in self._known:
            for at, entry in partition.live().items():
                if at not in found or entry.age > found[at].age:
                    found[at] = entry
        return found

    def present(self) -> dict[Place, Entry]:
        """Those that are there: not the deleted ones."""
        found = self.everything()
        return {at: entry for at, entry in found.items() if entry.value is not None}

    def latest(self) -> dict[bytes, Entry]:
        """Each key's one value, of key-value, global and versioned views: the last version, if it
        is not a delete."""
        if self.view.store in ("key-value", "global"):
            return {at[0]: entry for at, entry in self.present().items()}
        last = {key: entry for (key, _), entry in sorted(self.everything().items())}
        return {key: entry for key, entry in last.items() if entry.value is not None}

    # one key

    def point(self, key: bytes) -> Entry | None:
        """`GET …/keys/{key}`, HEAD, search, an item of a batch: the value, or None (404)."""
        return self.latest().get(key)

    def versions(self, key: bytes) -> list[Version]:
        """All versions of a key with when each ended, deletes too."""
        of_key = sorted((at[1], e) for at, e in self.everything().items() if at[0] == key)
        return [
            Version(one[0], None if following is None else following[0], one[1].value)
            for one, following in zip_longest(of_key, of_key[1:])
        ]

    def as_of(self, key: bytes, moment: int) -> tuple[set[int], Version | None]:
        """`GET …/keys/{key}?as_of=`: the statuses that are right, and the version that was valid.

        Before the horizon it is known of the last version alone; where that is a delete, the
        delete may be forgotten.
        """
        valid = next((v for v in self.versions(key) if v.was_valid(moment)), None)
        if moment < self.horizon and (valid is None or valid.until is not None):
            return {410}, None
        if valid is None:
            return {404}, None
        if valid.value is None:
            return ({404, 410} if moment < self.horizon else {404}), None
        return {200}, valid

    def history(self, key: bytes, first: float, last: float) -> Listing:
        """`GET …/keys/{key}/windows|sessions|versions?from=&to=`: windows that start within the
        bounds, sessions and versions that overlap them; in the order of their times."""
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
        for since, until, value in self.versions(key):
            # of what ended before the horizon nothing is known
            known_from = first if until is None else max(first, self.horizon)
            overlaps = since <= last and known_from <= last
            if overlaps and (until is None or until > known_from) and value is not None:
                shown = json_of(value, self.view.value)
                item = {"valid_from": since, "valid_to": until, "value": shown}
                listing.append(((key, since), item))
        return listing

    # the whole view

    def keys(
        self, first: bytes | None = None, last: bytes | None = None, prefix: bytes = b""
    ) -> Listing:
        """`GET …/keys?from=&to=&prefix=`: keys in their order, both bounds within."""
        return [
            (
                (self._rank(key), key),
                {
                    "key": json_of(key, self.view.key),
                    "value": json_of(entry.value or b"", self.view.value),
                },
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
        """`GET …/windows?from=&to=&key_from=&key_to=`: those that start within the bounds, by key,
        start, sequence."""
        size = self.view.window_size
        listing: Listing = []
        for (key, start, sequence), entry in self.present().items():
            if first <= start <= last and self._within(key, key_first, key_last):
                item = {
                    "key": json_of(key, self.view.key),
                    "start": start,
                    "end": None if size is None else start + size,
                    "sequence": sequence,
                    "value": json_of(entry.value or b"", self.view.value),
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
        """`GET …/sessions?from=&to=&key_from=&key_to=`: those that overlap the bounds, by key, end,
        start."""
        listing: Listing = []
        for (key, end, start), entry in self.present().items():
            if first <= end and start <= last and self._within(key, key_first, key_last):
                item = {
                    "key": json_of(key, self.view.key),
                    "start": start,
                    "end": end,
                    "value": json_of(entry.value or b"", self.view.value),
                }
                listing.append(((self._rank(key), key, end, start), item))
        return sorted(listing, key=lambda pair: pair[0])

    def count(self) -> int:
        """`GET …/count?exact=true`: entries, or the keys of a versioned view."""
        return len(self.latest() if self.view.store == "versioned" else self.present())

    def top(self, by: str | None, descending: bool, limit: int) -> list[Item]:
        """`GET …/top?by=&order=&limit=`: by the number that a value has there; others are passed
        over, equal ones stand in key order."""
        ranked = []
        for (rank, _), item in self.keys():
            number = item["value"]
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
    """What is left of a listing for the page that follows the item at `last`."""
    in_order = listing[::-1] if descending else listing
    if last is None:
        return in_order
    return [each for each in in_order if (each[0] < last if descending else each[0] > last)]


def assert_in_order(places: list[Place], descending: bool) -> None:
    """No item twice, and all in order."""
    for one, other in pairwise(places):
        assert one > other if descending else one < other, (one, other)
