"""Infers the kind of store behind a changelog. No I/O.

What Kafka Streams 4.1 sets on a changelog:

| store                        | cleanup.policy | and                                         |
|------------------------------|----------------|---------------------------------------------|
| key-value¹                   | compact        |                                             |
| versioned                    | compact        | min.compaction.lag.ms = its history + 1 day |
| window, session              | compact,delete | retention.ms = its retention + 1 day²       |
| window with duplicates       | delete         | retention.ms = its retention + 1 day²       |

¹ Timestamped stores have the same changelog: the timestamps are those of the records.
² The day is `windowstore.changelog.additional.retention.ms`, which can be configured. The store's
  retention can also differ from the topic's: if a supplier creates an aggregate's store, the topic
  has the retention of the windows (size + grace), and the store has that of the supplier. So the
  topic does not show the store's retention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from model.times import DAY
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.inspection.record_keys import session_times, window_times
from queryable.cli.inspection.samples import SampledRecord

MAX_TIME = 1 << 43
"""ms since 1970, in the year 2248: a greater number is not a time."""


def infer_store(config: Mapping[str, str], records: Sequence[SampledRecord]) -> Inference:
    """Uses the topic's configuration, and the ends of record keys for window or session."""
    policy = {policy.strip() for policy in config.get("cleanup.policy", "compact").split(",")}
    if policy == {"compact"}:
        if int(config.get("min.compaction.lag.ms") or 0) > DAY:
            return Inference(
                "versioned",
                Confidence.CERTAIN,
                "min.compaction.lag.ms is set as for a versioned store",
            )
        return Inference(
            "key-value", Confidence.CERTAIN, "the topic is compacted and has no retention"
        )
    if policy == {"delete"}:
        return Inference(
            "window", Confidence.CERTAIN, "the topic is not compacted: windows with duplicates"
        )
    if not records:
        return Inference("window", Confidence.GUESS, "window or session: the topic has no records")
    windows = sum(_ends_with_times(record, window_times) for record in records)
    sessions = sum(_ends_with_times(record, session_times) for record in records)
    if windows == sessions:
        return Inference("window", Confidence.GUESS, "window or session: the keys fit both")
    name, most, other = ("window", windows, sessions)
    if sessions > windows:
        name, most, other = ("session", sessions, windows)
    is_certain = most == len(records) and not other
    return Inference(
        name,
        Confidence.CERTAIN if is_certain else Confidence.LIKELY,
        f"{most} of {len(records)} keys end like those of a {name} store",
    )


def _ends_with_times(
    record: SampledRecord, times: Callable[[bytes], tuple[int, int] | None]
) -> bool:
    """Whether the record key ends with plausible times: after 1970, and not long after the record's
    timestamp, because a record is written during its window or later."""
    interval = times(record.key or b"")
    if interval is None:
        return False
    start, end = interval
    return 0 <= start <= end < MAX_TIME and start <= record.timestamp + DAY
