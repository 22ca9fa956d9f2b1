"""What the broker deletes of a topic while the store that it is the changelog of still has it.

A store forgets by the times of its records: what lies its retention before the newest one. The
broker deletes by its own clock. Where event time stands still, or is long ago, the broker deletes
what the store keeps, and nothing in the topic tells what that was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from queryable.console.guesses import Looked
from queryable.console.guessing import DAY, duration

FOR_EVER = 10**14
"""ms; Kafka says so with -1, some people with its greatest number."""


class Lost(NamedTuple):
    """`says`: for a person. `empty`: partitions that had records and have none any more."""

    says: str
    empty: list[int]
    everything: bool  # no partition has a record any more


def kept_for(config: Mapping[str, str]) -> int | None:
    """How long (ms) the broker keeps records; None: it does not delete by time."""
    kept = int(config.get("retention.ms") or -1)
    is_deleted = "delete" in config.get("cleanup.policy", "delete")
    return kept if is_deleted and 0 <= kept < FOR_EVER else None


def lost(config: Mapping[str, str], looked: Looked, retention: int | None, now: int) -> Lost | None:
    """`retention` (ms) of the store; None where it is not known: then it is a day less than that of
    the topic. `now`: ms since 1970."""
    kept = kept_for(config)
    if kept is None:
        return _cut(config, looked, now)
    deleted = sum(first for first, _ in looked.spans)
    empty = [number for number, (first, end) in enumerate(looked.spans) if 0 < first == end]
    if empty:
        everything = all(first == end for first, end in looked.spans)
        whole = sum(looked.spans[number][1] for number in empty)
        return Lost(
            f"the broker has deleted all {whole} records of "
            f"{'the topic' if everything else _partitions(empty)} (retention.ms {duration(kept)}): "
            "what the store still has of them is not in the topic",
            empty,
            everything,
        )
    known = max(kept - DAY, 0) if retention is None else min(retention, kept)
    old = _old(looked, now - kept + known)
    if not old or kept == known:
        return None
    done = f"has deleted {deleted} records, and " if deleted else ""
    return Lost(
        f"{_how_old(old, now)}, and the broker deletes by its clock what is older than "
        f"{duration(kept)}: it {done}deletes what the store, which goes by the newest record, "
        "still keeps",
        [],
        False,
    )


def _cut(config: Mapping[str, str], looked: Looked, now: int) -> Lost | None:
    """Of a versioned store: its history is safe from compaction for `min.compaction.lag.ms`, which
    is a day more than the history."""
    lag = int(config.get("min.compaction.lag.ms") or 0)
    old = _old(looked, now - DAY)
    if lag <= DAY or not old:
        return None
    return Lost(
        f"{_how_old(old, now)}, and the broker compacts by its clock what is older than "
        f"{duration(lag)}: it leaves each key's latest version of a history that the store, which "
        "goes by the newest record, still keeps",
        [],
        False,
    )


def _old(looked: Looked, least: int) -> dict[int, int]:
    """The newest time (ms) of partitions in which it lies before `least`."""
    newest: dict[int, int] = {}
    for record in looked.records:
        newest[record.partition] = max(record.timestamp, newest.get(record.partition, 0))
    return {number: time for number, time in newest.items() if time < least}


def _how_old(old: Mapping[int, int], now: int) -> str:
    seconds = (now - max(old.values())) // 1000
    age = duration(seconds * 1000)
    return f"the newest record of {_partitions(sorted(old))} is {age} old"


def _partitions(numbers: list[int]) -> str:
    return f"partition{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
