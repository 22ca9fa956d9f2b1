"""The same key in several partitions of a view in which each of them may be a partial result.

In the changelog of a Kafka Streams store a record lies in the partition of the task that wrote it.
Where the store's keys are not the keys of its input, each task has an entry of its own under the
same key: none of them is the whole, and the newest is no better than the others. From outside this
looks like a key that moved from one partition to another, so neither is guessed: the question is
refused, unless all partial results are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from backend.api.answer import JSON, Answer, Header
from backend.core.errors import Hopeless, NotFound
from backend.core.records import decode_entry, is_deleted
from backend.core.scan import Row
from backend.core.views import NEWEST, View

log = logging.getLogger(__name__)

_warned: set[str] = set()


class PlacedRow(NamedTuple):
    """A row and the partition that it is from."""

    key: bytes
    head: bytes
    item: bytes
    partition: int


class Apart:
    """Compares the rows of one question, which come in the order of their stored keys."""

    def __init__(self, view: View, with_times: bool) -> None:
        """`with_times`: whether the rows of a versioned view are its versions, not the latest."""
        self._view = view
        self._with_times = with_times
        # sessions and versions of one key depend on each other: it is whole in one partition only
        self._tail = 16 if view.store == "session" else 8 * (view.store == "versioned")
        if view.store == "versioned" and not with_times:
            self._tail = 0
        self._key: bytes | None = None  # the last one with a value, without its times
        self._partition = -1

    def whole(self, rows: Sequence[PlacedRow]) -> list[Row]:
        """One row a stored key; Hopeless where it cannot be told what is whole."""
        found: list[Row] = []
        for stored_key, same in groupby(rows, itemgetter(0)):
            of_key = list(same)
            newest = max(of_key, key=_age)
            live = [row for row in of_key if not is_deleted(row.head)]
            if len(live) > 1 or (live and newest is not live[0]):
                raise self._ambiguous(stored_key, of_key)
            if live and self._tail:
                self._refuse_two_partitions(live[0])
            found.append(newest[:3])
        return found

    def _refuse_two_partitions(self, row: PlacedRow) -> None:
        key = row.key[: -self._tail]
        if key == self._key and row.partition != self._partition:
            raise self._ambiguous(row.key, [row], self._partition)
        self._key, self._partition = key, row.partition

    def _ambiguous(self, stored_key: bytes, rows: Iterable[PlacedRow], *also: int) -> Hopeless:
        view = self._view
        if view.name not in _warned:
            _warned.add(view.name)
            log.warning(
                "view %s has the same key in several partitions: it is not answered as one value. "
                'docs/kafka-streams.md says why; set same_key = "%s" if such a key has moved',
                view.name, NEWEST,
            )  # fmt: skip
        no_time = b"\0" * 8 if view.store == "versioned" and not self._with_times else b""
        key = view.key_codec.to_json(view.layout.entry_key(stored_key + no_time).key)
        partitions = sorted({*(row.partition for row in rows), *also})
        return Hopeless(
            "ambiguous-key",
            f"Key {key.decode()[:200]} of view {view.name} has records in partitions "
            f"{', '.join(map(str, partitions))}. Each may be the partial result of one task of the "
            f"application: none is the whole. partials=all of a read by key gives all of them. If "
            f'the key has moved, set same_key = "{NEWEST}" in [views.{view.name}].',
            partitions=partitions,
        )


def _age(row: PlacedRow) -> tuple[int, int, int]:
    timestamp, offset, _ = decode_entry(row.head)
    return timestamp, offset, row.partition


def partials_answer(
    view: View, key: bytes, rows: Iterable[PlacedRow], headers: list[Header]
) -> Answer:
    """What each partition has of a key, with the place and the time (ms) of its record."""
    items = []
    for row in sorted(rows, key=lambda row: row.partition):
        timestamp, offset, _ = decode_entry(row.head)
        value = view.value_codec.to_json(row.item)
        items.append(
            b'{"partition":%d,"offset":%d,"timestamp":%d,"value":%b}'
            % (row.partition, offset, timestamp, value)
        )
    if not items:
        problem = NotFound("key-not-found", f"No partition of view {view.name} has such a key.")
        return Answer(404, problem.headers() + headers, problem.body())
    key_json = view.key_codec.to_json(key)
    body = b'{"key":%b,"partials":[%b]}' % (key_json, b",".join(items))
    return Answer(200, [*headers, JSON], body)
