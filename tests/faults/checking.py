"""Checks all answers after a run, against all records that were ever in the log. Pure.

An answer has the position of its store partition. It is right if a replay of the log up to that
position gives the same, or a replay up to a later record that was applied before the position was
read (`Offset` is a lower bound: backend/queries/point.py). Times are seconds of the machine's
monotonic clock.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

# offset, key, value (None deletes)
Record = tuple[int, str, bytes | None]
# key -> its partition
Home = Callable[[str], int]

_CLOCK_TOLERANCE = 0.05  # s by which the recorded time of an acknowledgement may be late
_MAX_EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class Read:
    """One request for a key, and its answer; -1: the answer does not have the value."""

    sent: float
    answered: float
    key: str
    home: int  # the key's partition when the run began: the silence of this one counts
    status: int = 0  # 0: no answer
    code: str = ""  # of the problem, or the error of the client
    body: bytes = b""
    partition: int = -1
    offset: int = -1
    record: int = -1  # offset of the value's record, from the ETag
    staleness: float = -1  # s
    retry_after: bool = False
    served_by: str = ""
    floor: int = -1  # the position that its reader has seen, and sends as min_offset
    seen: int = -1  # the record of this key that its reader has seen

    @property
    def good(self) -> bool:
        return self.status in (200, 404)


class TopicHistory:
    """The records of a topic while it was the same topic, with the same number of partitions.

    `since`, `until`: when answers from it may arrive. `kept`: keys that existed before and are
    never deleted. `acknowledged`: partition -> (time, offset) of records, in the order of both.
    `former`: of the keys, before partitions were added; one producer has written each key.
    """

    def __init__(
        self,
        logs: Mapping[int, Iterable[Record]],
        home: Home,
        kept: frozenset[str] = frozenset(),
        acknowledged: Mapping[int, Sequence[tuple[float, int]]] | None = None,
        since: float = float("-inf"),
        until: float = float("inf"),
        former: Home | None = None,
    ) -> None:
        self.home = home
        self.former = former or home
        self.kept = kept
        self.since = since
        self.until = until
        self._acknowledged = acknowledged or {}
        self._records: dict[tuple[int, str], tuple[list[int], list[bytes | None]]] = {}
        for partition, records in logs.items():
            for offset, key, value in records:
                offsets, values = self._records.setdefault((partition, key), ([], []))
                offsets.append(offset)
                values.append(value)

    def below(self, partition: int, key: str, position: int) -> tuple[int, bytes | None]:
        """The key's last record below a position; (-1, None) if there is none."""
        offsets, values = self._records.get((partition, key), ((), ()))
        at = bisect_left(offsets, position)
        return (offsets[at - 1], values[at - 1]) if at else (-1, None)

    def value_at(self, partition: int, key: str, offset: int) -> bytes | None:
        """The value of the key's record at this offset; None if it is missing or a delete."""
        found, value = self.below(partition, key, offset + 1)
        return value if found == offset else None

    def records_of_moved(self, key: str) -> list[tuple[int, int, bytes | None]]:
        """(partition, offset, value) of a key that has moved, in the order in which its producer
        has written them; empty if it has not moved."""
        former, home = self.former(key), self.home(key)
        if former == home:
            return []
        of_both = [
            [(partition, *record) for record in zip(*self._records[partition, key], strict=True)]
            for partition in (former, home)
            if (partition, key) in self._records
        ]
        return [record for records in of_both for record in records]

    def deleted_since(self, partition: int, key: str, position: int) -> int:
        """The offset of the key's last delete at or after a position; -1 if there is none."""
        offsets, values = self._records.get((partition, key), ((), ()))
        first = bisect_left(offsets, position)
        return max((o for o, v in zip(offsets[first:], values[first:], strict=True) if v is None),
                   default=-1)  # fmt: skip

    def acknowledged_by(self, partition: int, time: float) -> int:
        """The last offset that the broker had confirmed at that time; -1 if there is none."""
        confirmed = self._acknowledged.get(partition, ())
        at = bisect_right(confirmed, (time, float("inf")))
        return confirmed[at - 1][1] if at else -1


def wrong(read: Read, histories: Sequence[TopicHistory]) -> str:
    """Describes what is wrong with an answer; "" if it is right or a 5xx."""
    if read.status == 503:
        return "" if read.retry_after else "503 without Retry-After"
    if read.status == 0 or read.status >= 500:
        return ""
    if not read.good or (read.status == 404 and read.code != "key-not-found"):
        return f"an unexpected error: {read.status} {read.code}"
    possible = [
        history
        for history in histories
        if read.answered >= history.since and read.sent <= history.until
    ]
    if len(possible) > 1:
        # its reader may have seen records of either topic
        read = replace(read, floor=-1, seen=-1)
    errors = [_wrong_in(read, history) for history in possible]
    return "" if "" in errors else " / ".join(errors)


def _wrong_in(read: Read, history: TopicHistory) -> str:
    if read.partition < 0 or read.offset < 0:
        return _wrong_moved(read, history)
    home = history.home(read.key)
    if read.partition != home:
        return f"of partition {read.partition}, and the key belongs to {home}"
    # its reader has seen the position of `read.home`
    if read.partition == read.home and read.offset < read.floor:
        return f"the position went back: {read.offset} after {read.floor}"
    if read.staleness >= 0:
        confirmed = history.acknowledged_by(home, read.sent - read.staleness - _CLOCK_TOLERANCE)
        if confirmed >= read.offset:
            return (
                f"it claims that it was caught up {read.staleness:.3f} s ago, but {confirmed} had "
                f"been confirmed before; its position is {read.offset}"
            )
    return _wrong_value(read, history) if read.status == 200 else _wrong_miss(read, history)


def _wrong_moved(read: Read, history: TopicHistory) -> str:
    """An answer from two partitions has no position. It must be the value of one of the key's
    records, and not of one before those that it must include."""
    records = history.records_of_moved(read.key)
    if not records:
        return "no Partition or Offset"
    first = -1
    for number, (partition, offset, _) in enumerate(records):
        included = read.floor - 1 if partition == read.home else -1
        if read.staleness >= 0:
            time = read.sent - read.staleness - _CLOCK_TOLERANCE
            included = max(included, history.acknowledged_by(partition, time))
        if offset <= included:
            first = number
    possible = [None] if first < 0 else []
    possible += [value and json.loads(value) for _, _, value in records[max(first, 0) :]]
    try:
        value = json.loads(read.body)["value"] if read.status == 200 else None
    except (ValueError, KeyError, TypeError):
        return f"the body is {read.body[:60]!r}"
    if value not in possible:
        return f"{value}, which none of its records has since number {first} of {len(records)}"
    if value is None and read.key in history.kept:
        return "404 for a key that is never deleted"
    return ""


def _wrong_value(read: Read, history: TopicHistory) -> str:
    at, _ = history.below(read.partition, read.key, read.offset)
    if read.record < read.offset and read.record != at:
        return f"the value of record {read.record}, but {at} is the last below {read.offset}"
    value = history.value_at(read.partition, read.key, read.record)
    if value is None:
        return f"record {read.record} has no value for this key"
    try:
        document = json.loads(read.body)
    except ValueError:
        return f"the body is not JSON: {read.body[:60]!r}"
    if document != {"key": read.key, "value": json.loads(value)}:
        return f"the body is {read.body[:60]!r}, but record {read.record} is {value[:60]!r}"
    if read.partition == read.home and read.record < read.seen:
        return f"it went back from record {read.seen} of this key to {read.record}"
    return ""


def _wrong_miss(read: Read, history: TopicHistory) -> str:
    if read.key in history.kept:
        return "404 for a key that is never deleted"
    at, value = history.below(read.partition, read.key, read.offset)
    later = history.deleted_since(read.partition, read.key, read.offset)
    if value is not None and later < 0:
        return f"404 as of {read.offset}, but record {at} has a value"
    deleted = max(at if value is None else -1, later)
    if read.partition == read.home and deleted < read.seen:
        return f"it went back from record {read.seen} of this key to none"
    return ""


def longest_silence(
    reads: Sequence[Read], began: float, ended: float, stalls: Sequence[tuple[float, float]] = ()
) -> tuple[float, int]:
    """The longest time (s) in which a partition had no good answer, and the partition.

    All partitions are read continuously, except during `stalls` (from, to; in order), which do not
    count.
    """
    good: dict[int, list[float]] = {read.home: [began] for read in reads}
    for read in reads:
        if read.good:
            good[read.home].append(read.answered)
    longest = (0.0, -1)
    for partition, times in good.items():
        times.append(ended)
        times.sort()
        for before, after in pairwise(times):
            # stalls can only shorten it
            if after - before > longest[0]:
                stalled = sum(
                    max(0.0, min(after, end) - max(before, begin)) for begin, end in stalls
                )
                longest = max(longest, (after - before - stalled, partition))
    return longest


@dataclass
class Findings:
    """The result of all reads of a run."""

    requests: int = 0
    wrong: int = 0
    failed: int = 0
    silence: float = 0.0  # s
    silent: int = -1  # the partition
    ahead: int = 0  # values newer than the position of their answer
    failures: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)


def check(
    reads: Sequence[Read],
    histories: Sequence[TopicHistory],
    began: float,
    ended: float,
    stalls: Sequence[tuple[float, float]] = (),
) -> Findings:
    """Checks every answer. `failed`: 5xx, and requests without an answer."""
    found = Findings(requests=len(reads))
    for read in reads:
        if not read.good:
            found.failed += 1
            found.failures[f"{read.status or 'no answer'} {read.code}"] += 1
        elif read.record >= read.offset:
            found.ahead += 1
        error = wrong(read, histories)
        if error:
            found.wrong += 1
            if len(found.examples) < _MAX_EXAMPLES:
                at = read.sent - began
                found.examples.append(f"{at:.3f} s: {read.key} by {read.served_by}: {error}")
    found.silence, found.silent = longest_silence(reads, began, ended, stalls)
    return found
