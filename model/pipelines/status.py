"""The freshness of a derived view: its pipeline's lag behind the source topics, and its state.

A pipeline (Spark, Kafka Streams, any consumer) commits its position in its source topics to a
consumer group. Source records after that position are not in the view topic yet. A pipeline may
write a heartbeat into the metadata of one committed offset, as JSON: {"state": "starting",
"running", "paused", "failed" or "stopped", "at": epoch ms, "error": text, "caught_up_at": epoch ms
at which it had last read everything, "command": id of the last command that it has carried out, or
null (`model.pipelines.commands`), "paused": whether it must stay paused after a restart, "stats":
numbers (`model.pipelines.stats`)}. `at` is different in each heartbeat. Only pipelines that follow
commands have `command`. While keys that moved to another partition of a source may have older
values, a heartbeat has "moved_keys_since": epoch ms from which this is possible, or 0 if the time
is not known.

Times are in seconds, from the clock of `model.progress`. The caller passes them in. One thread
writes. Other threads read without a lock, because shared values are replaced, never modified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from model.pipelines.stats import known_stats
from model.progress import Progress

STARTING: Final = "starting"
RUNNING: Final = "running"
PAUSED: Final = "paused"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
UNKNOWN: Final = "unknown"
_REPORTED_STATES: Final = (STARTING, RUNNING, PAUSED, FAILED, STOPPED)

# Seconds after which a pipeline without a new heartbeat counts as stopped, if the broker answers.
# Polls are 1 s apart, so the third one after the last new heartbeat reports "stopped", within 5 s.
_SILENT_AFTER_S = 2.8
# Maximum polls with the same heartbeat, whatever their interval: slow polls must not hide a dead
# job.
_MAX_SAME_POLLS = 6
_MAX_ERROR_LENGTH = 500
_HEADERS_TTL_S = 0.25  # s
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")

Header = tuple[bytes, bytes]
SourcePartition = tuple[str, int]
"""A partition of a source topic."""


class Heartbeat(NamedTuple):
    """A heartbeat; times in epoch ms. `command`: id of the last command that was carried out."""

    state: str
    at_ms: int
    error: str | None = None
    caught_up_at_ms: int | None = None
    follows_commands: bool = False
    command: str | None = None
    paused: bool = False
    stats: Mapping[str, float] = {}
    moved_keys_since_ms: int | None = None


class CommittedOffset(NamedTuple):
    """The offset of the next record to read, and the metadata committed with it."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True)
class LogOffsets:
    """The log start and end offsets of a source topic by partition, as of `fetched_at` (s), and the
    high watermarks, which are greater than the ends while a transaction is open."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    fetched_at: float
    high_watermarks: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Status:
    """A pipeline's status at one time. None means unknown; times are in s.

    `heard_ago`: time since its last heartbeat. `lag`: source records that it has not read yet.
    `staleness`: time since it had last read everything. `sources`: lag by topic. `command`: the id
    of the last command that it has carried out. `stats`: the numbers in its last heartbeat.
    `open_transaction`: the time for which a transaction in a source has held readers back.
    `seconds_left`: an estimate of the time until it has read its sources, if it runs.
    `rebuild_seconds`: an estimate of the time for which a rebuild reads them from the start.
    """

    state: str
    heard_ago: float | None
    error: str | None
    lag: int | None
    staleness: float | None
    sources: Mapping[str, int | None]
    follows_commands: bool = False
    command: str | None = None
    stats: Mapping[str, float] = field(default_factory=dict)
    open_transaction: float | None = None
    seconds_left: float | None = None
    rebuild_seconds: float | None = None

    def document(self, group: str) -> dict[str, Any]:
        """The JSON object in `GET /views/{view}`; times in ms."""
        return {
            "group": group,
            "state": self.state,
            "heard_ago": _ms(self.heard_ago),
            "error": self.error,
            "lag": self.lag,
            "staleness": _ms(self.staleness),
            "open_transaction": _ms(self.open_transaction),
            "seconds_left": _rounded(self.seconds_left),
            "rebuild_seconds": _rounded(self.rebuild_seconds),
            "sources": [{"topic": topic, "lag": lag} for topic, lag in self.sources.items()],
            "follows_commands": self.follows_commands,
            "command": self.command,
            "stats": dict(self.stats),
        }


NEVER_POLLED = Status(UNKNOWN, None, None, None, None, {})


def parse_heartbeat(metadata: str) -> Heartbeat | None:
    """The heartbeat in the metadata of an offset; None if the metadata is something else."""
    if not metadata.startswith("{"):
        return None
    try:
        # librdkafka's clients include the terminating zero byte of a C string
        fields = orjson.loads(metadata.rstrip("\0"))
        state, at_ms, error = fields["state"], fields["at"], fields.get("error")
        caught_up_at_ms = fields.get("caught_up_at")
        moved_keys_since_ms = fields.get("moved_keys_since")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if state not in _REPORTED_STATES or type(at_ms) is not int:
        return None
    command = fields.get("command")
    return Heartbeat(
        state,
        at_ms,
        _CONTROL.sub(" ", error)[:_MAX_ERROR_LENGTH] if isinstance(error, str) else None,
        caught_up_at_ms if type(caught_up_at_ms) is int else None,
        "command" in fields,
        command if isinstance(command, str) else None,
        fields.get("paused") is True,
        known_stats(fields.get("stats")),
        moved_keys_since_ms if type(moved_keys_since_ms) is int else None,
    )


class Pipeline:
    """One consumer group, as this instance sees it."""

    def __init__(self, group: str, trusted_for_s: float) -> None:
        """`trusted_for` (s): the maximum age of a poll that is used."""
        self.group = group
        self._trusted_for_s = trusted_for_s
        self._progress: dict[SourcePartition, Progress] = {}
        self._unknown: frozenset[str] = frozenset()  # topics whose lag is unknown
        self._polled_at: float | None = None
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_at: float | None = None
        self._same_since: float | None = None  # the heartbeat has not changed since then
        self._same_polls = 0  # polls since it changed
        self._has_changed = False  # whether the heartbeat has changed while this instance polled
        self._has_members: bool | None = None
        self._moved_keys_since: float | None = None
        self._records = 0  # in the sources
        self._greatest_rate = 0.0  # records/s; small micro-batches have a low rate
        self._headers: tuple[Header, ...] = ()
        self._headers_until = float("-inf")

    def record_poll(
        self,
        now: float,
        wall_ms: int,
        committed: Mapping[SourcePartition, CommittedOffset],
        topics: Mapping[str, LogOffsets],
        has_members: bool | None,
    ) -> None:
        """Record the result of a poll at `now`. `wall_ms`: the wall clock, in epoch ms.

        `committed` must have been fetched before `topics`. `has_members`: whether the group has
        members; None if unknown.
        """
        self._record_heartbeat(now, wall_ms, committed)
        self._has_members = has_members
        progress: dict[SourcePartition, Progress] = {}
        unknown = {topic for topic, _ in committed if topic not in topics}
        self._records = sum(
            max(0, end - source.starts.get(partition, 0))
            for source in topics.values()
            for partition, end in source.ends.items()
        )
        for topic, source in topics.items():
            for partition, end in source.ends.items():
                source_partition = (topic, partition)
                offset = committed.get(source_partition)
                # without a committed offset, the group has read nothing of the partition
                position = source.starts.get(partition, 0) if offset is None else offset.offset
                high = source.high_watermarks.get(partition, end)
                if position > max(end, high):
                    unknown.add(topic)  # the topic was recreated or truncated
                    continue
                partition_progress = self._progress.get(source_partition)
                if partition_progress is None or position < partition_progress.position:
                    partition_progress = self._new_progress(position, end, now, wall_ms)
                partition_progress.applied(position)
                partition_progress.end_fetched(end, source.fetched_at, high)
                progress[source_partition] = partition_progress
        self._progress = progress
        self._unknown = frozenset(unknown)
        self._polled_at = now

    def _new_progress(self, position: int, end: int, now: float, wall_ms: int) -> Progress:
        """The progress of a new source partition. Its staleness comes from the heartbeat."""
        progress = Progress(position, end, answerable=False)
        if self._heartbeat is not None and self._heartbeat.caught_up_at_ms is not None:
            progress.caught_up_at = now - max(0, wall_ms - self._heartbeat.caught_up_at_ms) / 1000
        return progress

    def _record_heartbeat(
        self, now: float, wall_ms: int, committed: Mapping[SourcePartition, CommittedOffset]
    ) -> None:
        parsed = (parse_heartbeat(offset.metadata) for offset in committed.values())
        heartbeat = max(filter(None, parsed), key=lambda heartbeat: heartbeat.at_ms, default=None)
        polled_recently = self._polled_at is not None and now - self._polled_at < _SILENT_AFTER_S
        if heartbeat is not None and heartbeat != self._heartbeat:
            is_first = self._heartbeat is None
            self._same_since = now
            self._same_polls = 0
            # only its own timestamp tells the age of the first heartbeat
            self._heartbeat_at = now - max(0, wall_ms - heartbeat.at_ms) / 1000 if is_first else now
            self._has_changed = not is_first
        elif not polled_recently:
            # while the broker was unavailable, no heartbeat could arrive
            self._same_since = now
        self._same_polls += 1
        self._heartbeat = heartbeat
        self._greatest_rate = max(self._greatest_rate, _rate(heartbeat))
        since_ms = None if heartbeat is None else heartbeat.moved_keys_since_ms
        self._moved_keys_since = None if not since_ms else now - max(0, wall_ms - since_ms) / 1000

    def _state(self, now: float) -> str:
        if self._polled_at is None or now - self._polled_at > self._trusted_for_s:
            return UNKNOWN
        heartbeat = self._heartbeat
        if heartbeat is None:
            # without heartbeats, the state depends on whether the group has members
            if self._has_members:
                return RUNNING
            has_committed = bool(self._progress or self._unknown)
            return STOPPED if has_committed and self._has_members is False else UNKNOWN
        if heartbeat.state == STOPPED:
            return STOPPED
        assert self._same_since is not None
        is_silent = self._polled_at - self._same_since >= _SILENT_AFTER_S
        if is_silent or self._same_polls > _MAX_SAME_POLLS:
            return STOPPED
        return heartbeat.state if self._has_changed else UNKNOWN

    def status(self, now: float) -> Status:
        """The status at `now`."""
        if self._polled_at is None:
            return NEVER_POLLED
        heartbeat, heartbeat_at = self._heartbeat, self._heartbeat_at
        state = self._state(now)
        lags: dict[str, int | None] = dict.fromkeys(sorted(self._unknown))
        ages: list[float | None] = [None] * len(self._unknown)
        # before its first micro-batch, the pipeline's position is unknown
        is_starting = heartbeat is not None and heartbeat.state == STARTING
        for (topic, _), progress in self._progress.items():
            lag = None if is_starting else progress.lag(now, self._trusted_for_s)
            total = lags.get(topic, 0)
            lags[topic] = None if lag is None or total is None else total + lag
            ages.append(None if is_starting else progress.staleness(now))
        if heartbeat is not None and heartbeat.moved_keys_since_ms is not None:
            moved_keys_since = self._moved_keys_since
            ages.append(None if moved_keys_since is None else max(0.0, now - moved_keys_since))
        known_lags = [lag for lag in lags.values() if lag is not None]
        known_ages = [age for age in ages if age is not None]
        lag = sum(known_lags) if lags and len(known_lags) == len(lags) else None
        return Status(
            state,
            None if heartbeat is None or heartbeat_at is None else max(0.0, now - heartbeat_at),
            heartbeat.error if heartbeat is not None and state in (FAILED, STOPPED) else None,
            lag,
            max(known_ages) if ages and len(known_ages) == len(ages) else None,
            lags,
            heartbeat is not None and heartbeat.follows_commands,
            None if heartbeat is None else heartbeat.command,
            {} if heartbeat is None else heartbeat.stats,
            max(
                filter(None, (progress.open_transaction for progress in self._progress.values())),
                default=None,
            ),
            seconds_for(lag, _rate(heartbeat)) if state == RUNNING else None,
            None if self._unknown else seconds_for(self._records, self._greatest_rate),
        )

    def headers(self, now: float) -> tuple[Header, ...]:
        """The headers of every answer of its views. They are cached for 0.25 s, because this is on
        the hot path."""
        if now >= self._headers_until:
            status = self.status(now)
            self._headers = (
                (b"pipeline-lag", _header_value(status.lag)),
                (b"pipeline-staleness", _header_value(_ms(status.staleness))),
                (b"pipeline-state", status.state.encode()),
            )
            self._headers_until = now + _HEADERS_TTL_S
        return self._headers


def seconds_for(records: int | None, rate: float) -> float | None:
    """How long it takes to read the records at this rate (records/s); None if one is unknown."""
    if records == 0:
        return 0.0
    return None if records is None or rate <= 0 else records / rate


def _rate(heartbeat: Heartbeat | None) -> float:
    """Source records that the pipeline processed per second, in its last micro-batch; 0 if it does
    not report it."""
    return 0.0 if heartbeat is None else heartbeat.stats.get("processed_rate", 0.0)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _header_value(number: int | None) -> bytes:
    return b"unknown" if number is None else b"%d" % number
