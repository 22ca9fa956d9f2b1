"""Infers the fields of a view (model/views_file.py) for a changelog. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import gcd

from model.formats.frames import ID_IN_HEADER, id_headers
from model.formats.registry import FORMATS
from model.times import DAY, duration_text
from queryable.cli.inspection.formats import infer_format
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.inspection.partitioners import infer_partitioner
from queryable.cli.inspection.record_keys import BARE_KEY, window_times
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.inspection.stores import MAX_TIME, infer_store

_FEW_RECORDS = 20

WithSchemas = Callable[[str, Inference, Sequence[bytes]], Inference]
"""("key" or "value", inferred, samples) -> what it is by the schemas that the samples name."""


def without_schemas(what: str, inferred: Inference, samples: Sequence[bytes]) -> Inference:
    return inferred


def infer_view(
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[SampledRecord],
    store: Inference | None = None,
    with_schemas: WithSchemas = without_schemas,
) -> dict[str, Inference]:
    """The fields, in the order of views.toml. `store`: None to infer it."""
    keyed = [record for record in records if record.key is not None]
    store = store or infer_store(config, keyed)
    bare_key = BARE_KEY[store.value or ""]
    keys = [(record.partition, bare_key(record.key or b"")) for record in keyed]
    values = [record.value for record in records if record.value is not None]
    window_size = _infer_window_size(config, keyed) if store.value == "window" else None
    fields = {
        "key": _infer_format("key", [key for _, key in keys], keyed, with_schemas),
        "value": _infer_format("value", values, keyed, with_schemas),
        "store": store,
        "window_size": window_size,
        "retention": _infer_retention(store.value or "", config),
        "partitioner": infer_partitioner(keys, partitions),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _infer_format(
    what: str,
    samples: Sequence[bytes],
    records: Sequence[SampledRecord],
    with_schemas: WithSchemas,
) -> Inference:
    inferred = _unless_few(infer_format(samples, is_key=what == "key"), len(records))
    names = id_headers(what)
    is_in_header = any(not names.isdisjoint(record.headers) for record in records)
    if is_in_header and not _is_json(inferred):
        # Avro and Protobuf may look like text or numbers
        inferred = Inference(None, Confidence.GUESS, ID_IN_HEADER)
    return with_schemas(what, inferred, samples)


def _is_json(inferred: Inference) -> bool:
    codec = FORMATS[inferred.value].codec if inferred.value is not None else None
    return codec is not None and codec.is_json


def _unless_few(inferred: Inference, records: int) -> Inference:
    """Lowers the confidence in a format that few records show."""
    if records >= _FEW_RECORDS or inferred.confidence is Confidence.GUESS:
        return inferred
    reason = f"{inferred.reason}; the topic has only {records} records"
    return replace(inferred, confidence=Confidence.GUESS, reason=reason)


_RETENTION_SOURCE = {
    "window": "withRetention(…), or the store's retentionPeriod",
    "session": "withRetention(…), or the store's retentionPeriod",
    "versioned": "the store's historyRetention",
}


def _infer_retention(store: str, config: Mapping[str, str]) -> Inference | None:
    """A retention that is too short would remove entries from answers, so it is never guessed."""
    if store == "key-value":
        return None
    setting = "min.compaction.lag.ms" if store == "versioned" else "retention.ms"
    ms = int(config.get(setting) or -1)
    source = _RETENTION_SOURCE[store]
    if not DAY < ms < MAX_TIME:
        return Inference(None, Confidence.GUESS, f"{setting} does not show it: see {source}")
    less_a_day = f"{setting} ({duration_text(ms)}) less the day that Kafka Streams adds"
    if store == "versioned":
        # here the day is a constant of Kafka Streams, and the store is always a supplier's
        return Inference(duration_text(ms - DAY), Confidence.CERTAIN, less_a_day)
    return Inference(
        None,
        Confidence.GUESS,
        f"without it nothing expires. See {source}. The topic does not show it: {less_a_day} is "
        f"{duration_text(ms - DAY)}, which is too short if a supplier such as "
        "Stores.inMemoryWindowStore makes the store",
    )


def _infer_window_size(
    config: Mapping[str, str], records: Sequence[SampledRecord]
) -> Inference | None:
    """Window starts are multiples of the advance, and the timestamps of records are within their
    windows: so the size is at least the greatest distance between the two.

    The inferred value is None for windows that are points in time.
    """
    seen = [(times[0], r.timestamp) for r in records if (times := window_times(r.key or b""))]
    if config.get("cleanup.policy") == "delete":
        return Inference(None, Confidence.CERTAIN, "windows with duplicates are points in time")
    if not seen:
        return Inference(None, Confidence.GUESS, "the size of a window: see TimeWindows.ofSize…")
    longest = max(timestamp - start for start, timestamp in seen)
    if longest <= 0:
        return Inference(
            None,
            Confidence.LIKELY,
            "each record has the time of its window's start: points in time",
        )
    advance = gcd(*(start for start, _ in seen))
    at_the_end = sum(timestamp - start == longest for start, timestamp in seen)
    if at_the_end * 10 >= len(seen) and (advance < 1000 or longest % advance == 0):
        # each record ends a sliding window that includes it: the distance is the window's size
        return Inference(
            duration_text(longest),
            Confidence.LIKELY if advance < 1000 else Confidence.GUESS,
            f"{at_the_end} of {len(seen)} records are at the end of a sliding window: see "
            "SlidingWindows.ofTimeDifference…, or TimeWindows.ofSize…",
        )
    if advance < 10 or longest >= 1000 * advance:
        return Inference(
            duration_text(longest),
            Confidence.GUESS,
            "the longest in the sample; it may be longer: see TimeWindows.ofSize…",
        )
    starts = len({start for start, _ in seen})
    return Inference(
        duration_text((longest // advance + 1) * advance),
        Confidence.LIKELY if starts >= _FEW_RECORDS else Confidence.GUESS,
        f"windows start every {duration_text(advance)}, records are up to "
        f"{longest / 1000:,.0f} s later: see TimeWindows.ofSize…",
    )
