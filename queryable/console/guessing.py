"""What the records and the settings of a Kafka Streams changelog tell of the store behind it.

All without I/O. Layouts of record keys: model/kinds/layout.py and docs/kafka-streams.md. What
Kafka Streams 4.1 sets on a changelog, and with it most of what is known here:

| store                        | cleanup.policy | beside it                                   |
|------------------------------|----------------|---------------------------------------------|
| key-value, timestamped¹ too  | compact        |                                             |
| versioned                    | compact        | min.compaction.lag.ms = its history + 1 day |
| window, session              | compact,delete | retention.ms = its retention + 1 day²       |
| window with duplicates       | delete         | the same                                    |

¹ a changelog has the values alone: the timestamps are the records' own.
² The day is `windowstore.changelog.additional.retention.ms`, which may be set otherwise. The
  retention may be another one, too: where a supplier makes an aggregate's store, the topic has that
  of the windows (size + grace), and the store the supplier's. So the topic does not tell it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from math import gcd

from queryable.console.guessed_formats import format_of
from queryable.console.guessed_partitioner import partitioner_of
from queryable.console.guesses import Guess, Sampled, Sure

DAY = 86_400_000
_SOON = 1 << 43  # ms since 1970: in the year 2248
_FEW = 20
_UNITS = (("d", DAY), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def guess(
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[Sampled],
    store: Guess | None = None,
) -> dict[str, Guess]:
    """Fields of a view (model/views_file.py), in the order in which they are written.

    `store`: if it is known.
    """
    keyed = [record for record in records if record.key is not None]
    store = store or store_of(config, keyed)
    bare = BARE[store.value or ""]
    keys = [(record.partition, bare(record.key or b"")) for record in keyed]
    found = {
        "key": format_of([key for _, key in keys], is_key=True),
        "value": format_of([r.value for r in records if r.value is not None], is_key=False),
        "store": store,
        "window_size": _window_size(config, keyed) if store.value == "window" else None,
        "retention": _retention(store.value or "", config),
        "partitioner": partitioner_of(keys, partitions),
    }
    return {
        name: _modest(each, len(keyed), name) for name, each in found.items() if each is not None
    }


def _modest(found: Guess, records: int, field: str) -> Guess:
    """Few records tell little of formats."""
    if field not in ("key", "value") or records >= _FEW or found.sure is Sure.GUESS:
        return found
    return Guess(found.value, Sure.GUESS, f"{found.why}; only {records} records were there")


# --- the store


def store_of(config: Mapping[str, str], records: Sequence[Sampled]) -> Guess:
    """From the topic's settings; window or session from the ends of its keys."""
    policy = {each.strip() for each in config.get("cleanup.policy", "compact").split(",")}
    if policy == {"compact"}:
        if int(config.get("min.compaction.lag.ms") or 0) > DAY:
            return Guess("versioned", Sure.SURE, "min.compaction.lag.ms is that of a versioned one")
        return Guess("key-value", Sure.SURE, "the topic is compacted, without a retention")
    if policy == {"delete"}:
        return Guess("window", Sure.SURE, "the topic is not compacted: windows with duplicates")
    if not records:
        return Guess("window", Sure.GUESS, "window or session: the topic has no record to tell")
    windows = sum(_fits(record, _window_times) for record in records)
    sessions = sum(_fits(record, _session_times) for record in records)
    if windows == sessions:
        return Guess("window", Sure.GUESS, "window or session: the keys' ends could be both")
    name, most, other = ("window", windows, sessions)
    if sessions > windows:
        name, most, other = ("session", sessions, windows)
    sure = Sure.SURE if most == len(records) and not other else Sure.LIKELY
    return Guess(name, sure, f"{most} of {len(records)} keys end as those of a {name} store")


def _window_times(key: bytes) -> tuple[int, int] | None:
    """The start, twice; None if these are no such bytes."""
    if len(key) < 12:
        return None
    start, sequence = struct.unpack(">qi", key[-12:])
    return (start, start) if sequence >= 0 else None


def _session_times(key: bytes) -> tuple[int, int] | None:
    if len(key) < 16:
        return None
    end, start = struct.unpack(">qq", key[-16:])
    return start, end


def _fits(record: Sampled, times: Callable[[bytes], tuple[int, int] | None]) -> bool:
    """Whether the end of a key is times: after 1970, and, as its record has been written at some
    time in them or later, not long after the record."""
    found = times(record.key or b"")
    if found is None:
        return False
    start, end = found
    return 0 <= start <= end < _SOON and start <= record.timestamp + DAY


BARE: Mapping[str, Callable[[bytes], bytes]] = {
    "window": lambda key: key[:-12],
    "session": lambda key: key[:-16],
    "versioned": lambda key: key,
    "key-value": lambda key: key,
}
"""The part of a record key that readers know, by store."""


# --- times


def duration(ms: int) -> str:
    """As views.toml has it, with nine digits at most: rounded up where there would be more."""
    able = [(unit, size) for unit, size in _UNITS if -(-ms // size) < 10**9]
    unit, size = next((each for each in able if ms % each[1] == 0), able[-1])
    return f"{-(-ms // size)}{unit}"


def _retention(store: str, config: Mapping[str, str]) -> Guess | None:
    """Never shorter than it may be: what a view has forgotten is missing in its answers."""
    if store == "key-value":
        return None
    name = "min.compaction.lag.ms" if store == "versioned" else "retention.ms"
    kept = int(config.get(name) or -1)
    see = f"see {_SAID_IN[store]}"
    if not DAY < kept < _SOON:
        return Guess(None, Sure.GUESS, f"{name} does not tell it: {see}")
    if store == "versioned":
        # here the day is a constant of Kafka Streams, and the store always a supplier's
        why = f"{name} ({duration(kept)}) less the day that Kafka Streams adds"
        return Guess(duration(kept - DAY), Sure.SURE, why)
    less = f"retention.ms ({duration(kept)}) less the day that Kafka Streams adds"
    return Guess(
        None, Sure.GUESS,
        f"without it nothing expires. See {_SAID_IN[store]}. The topic does not tell it: {less} "
        f"is {duration(kept - DAY)}, and too short where a supplier such as "
        "Stores.inMemoryWindowStore makes the store",
    )  # fmt: skip


_SAID_IN = {
    "window": "withRetention(…), or the store's retentionPeriod",
    "session": "withRetention(…), or the store's retentionPeriod",
    "versioned": "the store's historyRetention",
}


def _window_size(config: Mapping[str, str], records: Sequence[Sampled]) -> Guess | None:
    """Starts lie on multiples of what windows advance by; a record of an aggregate has the time of
    its latest input, which lies within the window: so the size is at least the greatest distance.

    None for points in time.
    """
    seen = [(times[0], r.timestamp) for r in records if (times := _window_times(r.key or b""))]
    if config.get("cleanup.policy") == "delete":
        return Guess(None, Sure.SURE, "windows with duplicates are points in time")
    if not seen:
        return Guess(None, Sure.GUESS, "how long a window is: see TimeWindows.ofSize…")
    longest = max(timestamp - start for start, timestamp in seen)
    if longest <= 0:
        return Guess(None, Sure.LIKELY, "each record has its window's start: points in time")
    advance = gcd(*(start for start, _ in seen))
    at_the_end = sum(timestamp - start == longest for start, timestamp in seen)
    if at_the_end * 10 >= len(seen) and (advance < 1000 or longest % advance == 0):
        # each record of sliding windows ends one, which it is within: the difference is its size
        return Guess(
            duration(longest), Sure.LIKELY if advance < 1000 else Sure.GUESS,
            f"{at_the_end} of {len(seen)} records are at the end of a sliding window: see "
            "SlidingWindows.ofTimeDifference…, or TimeWindows.ofSize…",
        )  # fmt: skip
    if advance < 10 or longest >= 1000 * advance:
        return Guess(
            duration(longest), Sure.GUESS,
            "the longest that was seen, it may be longer: see TimeWindows.ofSize…",
        )  # fmt: skip
    size = duration((longest // advance + 1) * advance)
    sure = Sure.LIKELY if len({start for start, _ in seen}) >= _FEW else Sure.GUESS
    return Guess(size, sure, f"windows begin every {duration(advance)}, records lie up to "
        f"{longest / 1000:,.0f} s after: see TimeWindows.ofSize…")  # fmt: skip
