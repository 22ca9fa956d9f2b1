"""Parses ``topic_config``: settings of the topic that Spark's job creates for a view."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from model.derive.reading import TableError

MAX_SETTINGS = 50
_MAX_VALUE_LENGTH = 1000

# the settings of topics in Apache Kafka 4.3
_NAMES = (
    *("compression.gzip.level", "compression.lz4.level", "compression.type"),
    *("compression.zstd.level", "delete.retention.ms"),
    *("file.delete.delay.ms", "flush.messages", "flush.ms"),
    *("follower.replication.throttled.replicas", "index.interval.bytes"),
    *("leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms"),
    *("max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms"),
    *("message.timestamp.before.max.ms", "min.cleanable.dirty.ratio", "min.compaction.lag.ms"),
    *("min.insync.replicas", "preallocate", "remote.log.copy.disable"),
    *("remote.log.delete.on.disable", "remote.storage.enable", "retention.bytes", "segment.bytes"),
    *("segment.index.bytes", "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable"),
)
_OTHERS = re.compile(r"(confluent|redpanda)\.[a-z0-9._-]{1,100}", re.ASCII)
_OF_THE_VIEW = "follows from the view: set retention in its entry, or leave both out"
_REFUSED: Mapping[str, str] = {
    "cleanup.policy": _OF_THE_VIEW,
    "retention.ms": _OF_THE_VIEW,
    "message.timestamp.type": "the times of records are those that Spark writes",
    "replication.factor": "is not a setting of a topic: the brokers' default.replication.factor "
    "counts; or create the topic yourself",
    "partitions": "write partitions in the entry of the view",
}


def parse_topic_config(value: Any, path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Names and values. Raises TableError. The brokers check the values."""
    if not isinstance(value, dict):
        raise TableError(path, 'must be a table: topic_config = { "min.insync.replicas" = 2 }')
    settings = dict(_flat(value, ""))
    if len(settings) > MAX_SETTINGS:
        raise TableError(path, f"has {len(settings)} settings; at most {MAX_SETTINGS} are allowed")
    return tuple(
        (name, _text(setting, _check_name(name, path))) for name, setting in settings.items()
    )


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """In TOML, a dot in a name without quotes begins another table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _check_name(name: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """The path of the setting. Raises TableError if a topic has no such setting."""
    path = (*path, name)
    if name in _REFUSED:
        raise TableError(path, _REFUSED[name])
    if name not in _NAMES and not _OTHERS.fullmatch(name):
        close = difflib.get_close_matches(name, _NAMES, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise TableError(path, f"is not a setting of topics in Kafka{hint}")
    return path


def _text(value: Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float) or not str(value).isprintable():
        raise TableError(path, f"{value!r} is not a text, a number, true or false")
    if len(str(value)) > _MAX_VALUE_LENGTH:
        raise TableError(path, f"has more than {_MAX_VALUE_LENGTH} characters")
    return str(value)
