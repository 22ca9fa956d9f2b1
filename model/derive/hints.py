"""Hints for SQL users: the key of ``[views.NAME.derive]`` instead of a word of SQL."""

from __future__ import annotations

from collections.abc import Mapping

_KEYS: Mapping[str, str] = {
    "group_by": 'key = "…" groups the records',
    "groupby": 'key = "…" groups the records',
    "having": "where chooses records; groups cannot be filtered",
    "value": 'select = "…" is the value; value in the entry is its format',
    "map": "a table without an aggregate is a map: where, let, key, select",
    "order_by": "records have no order: latest, min, max and top_k choose by a value",
    "limit": 'write top_k = { k = 3, by = "…" }',
    "join_on": 'write join.NAME = { from = "…", on = "…", fields = { … } }',
    "topic": 'from = "…" is the topic that is read; the topic of the view is in its entry',
    "source": 'from = "…" is the topic that is read',
    "timestamp": 'time = "…" is the time of a record',
    "schema": "the fields of a value are in fields",
    "columns": "the fields of a value are in fields",
    "emit": "a value is written after each micro-batch: trigger in the entry",
    "tumbling": 'write window = "1h"',
    "hopping": 'write window = "1h" and advance = "10m"',
    "count_distinct": 'write distinct = "name"',
    "mean": 'write avg = "…"',
    "average": 'write avg = "…"',
    "total": 'write sum = "…"',
    **dict.fromkeys(("partition_by", "primary_key", "keys"), 'key = "…" groups the records'),
    "with": "there is no with: its settings are keys of this table",
    **dict.fromkeys(("grace", "grace_period", "watermark"), 'write lateness = "1h" with time'),
    **dict.fromkeys(("size", "window_size", "tumble"), 'write window = "1h"'),
    **dict.fromkeys(("hop", "slide"), 'write window = "1h" and advance = "10m"'),
    **dict.fromkeys(
        ("inactivity_gap", "session_gap", "session_window", "gap"), 'write session = "30m"'
    ),
    **dict.fromkeys(("deduplicate", "dedupe", "unique"), 'write identity = ["id", "time"]'),
    **dict.fromkeys(("explode", "unnest", "lateral_view"), 'write each = { item = "items" }'),
    "left_join": 'write join.NAME = { from = "…", on = "…", fields = { … } }',
    **dict.fromkeys(("timezone", "zone", "tz"), "times are in UTC: hour(a, 'Europe/Berlin')"),
    "union": "a view reads one topic",
}


def unknown_key(name: str) -> str | None:
    """What to write instead of an unknown key of the table; None if there is no hint."""
    return _KEYS.get(name.lower().replace("-", "_"))
