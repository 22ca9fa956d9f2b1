"""The freshness of a derived view: its pipeline's lag behind the source topics, and its state.

A pipeline (Spark, Kafka Streams, any consumer) commits its position in its source topics to a
consumer group. Source records after that position are not in the view topic yet. A pipeline may
write a heartbeat into the metadata of one committed offset, as JSON: {"state": "starting",
"running", "failed" or "stopped", "at": epoch ms, "error": text, "caught_up_at": epoch ms at which
it had last read everything}. `at` is different in each heartbeat.

Times are in seconds of one monotonic clock; the caller passes them in. One thread writes, others
read without a lock: shared values are replaced, never modified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from model.progress import Progress

STARTING: Final = "starting"
RUNNING: Final = "running"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
UNKNOWN: Final = "unknown"
_TOLD: Final = (STARTING, RUNNING, FAILED, STOPPED)

# s without a new heartbeat, while the broker answers, after which a pipeline counts as stopped.
# Polls are 1 s apart: the third one after the last new heartbeat reports "stopped", within 5 s.
SILENT_AFTER = 2.8
# Polls with the same heartbeat, however far apart: slow polls must not hide a dead job.
_SAME_POLLS = 6
_LONGEST_ERROR = 500
_REFRESHED = 0.25  # s for which headers are cached
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")

Header = tuple[bytes, bytes]
Unit = tuple[str, int]
"""A partition of a source topic."""


class Beat(NamedTuple):
    """A heartbeat; times in epoch ms."""

    state: str
    at: int
    error: str | None = None
    caught_up_at: int | None = None


class Committed(NamedTuple):
    """A committed offset (the next to read), and its metadata."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True)
class Ends:
    """A source topic: partition -> log start and end offsets, as of `fetched_at`."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    fetched_at: float


@dataclass(frozen=True)
class Status:
    """A pipeline's status at one moment; None means unknown. Times in s.

    `heard_ago`: time since its last heartbeat. `lag`: source records that it has not read yet.
    `staleness`: time since it had last read everything. `sources`: lag by topic.
    """

    state: str
    heard_ago: float | None
    error: str | None
    lag: int | None
    staleness: float | None
    sources: Mapping[str, int | None]

    def document(self, group: str) -> dict[str, Any]:
        """The JSON object in `GET /views/{view}`; times in ms."""
        return {
            "group": group,
            "state": self.state,
            "heard_ago": _ms(self.heard_ago),
            "error": self.error,
            "lag": self.lag,
            "staleness": _ms(self.staleness),
            "sources": [{"topic": topic, "lag": lag} for topic, lag in self.sources.items()],
        }


_NOTHING = Status(UNKNOWN, None, None, None, None, {})


def parse_beat(metadata: str) -> Beat | None:
    """The heartbeat in an offset's metadata; None if it is something else."""
    if not metadata.startswith("{"):
        return None
    try:
        # librdkafka's clients include the terminating zero byte of a C string
        fields = orjson.loads(metadata.rstrip("\0"))
        state, at, error = fields["state"], fields["at"], fields.get("error")
        caught_up_at = fields.get("caught_up_at")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if state not in _TOLD or type(at) is not int:
        return None
    text = _CONTROL.sub(" ", error)[:_LONGEST_ERROR] if isinstance(error, str) else None
    return Beat(state, at, text, caught_up_at if type(caught_up_at) is int else None)


class Pipeline:
    """One consumer group, as this instance sees it."""

    def __init__(self, group: str, trusted_for: float) -> None:
        """`trusted_for`: s after which an answer of the broker is too old to use."""
        self.group = group
        self._trusted_for = trusted_for
        self._progress: dict[Unit, Progress] = {}
        self._unknown: frozenset[str] = frozenset()  # topics whose lag is unknown
        self._looked_at: float | None = None
        self._beat: Beat | None = None
        self._heard_at: float | None = None
        self._same_since: float | None = None  # all polls since then have shown the same beat
        self._same_polls = 0  # polls since the beat changed
        self._beats = False  # whether the beat has changed while this instance watched
        self._has_members: bool | None = None
        self._headers: tuple[Header, ...] = ()
        self._headers_until = float("-inf")

    def looked(
        self,
        now: float,
        wall_ms: int,
        committed: Mapping[Unit, Committed],
        topics: Mapping[str, Ends],
        has_members: bool | None,
    ) -> None:
        """Record a poll of the broker at `now`.

        `committed` must have been fetched before `topics`. `has_members`: whether the group has
        members; None if unknown.
        """
        self._hear(now, wall_ms, committed)
        self._has_members = has_members
        progress: dict[Unit, Progress] = {}
        unknown = {topic for topic, _ in committed if topic not in topics}
        for topic, source in topics.items():
            for partition, end in source.ends.items():
                unit = (topic, partition)
                given = committed.get(unit)
                # without a committed offset, the group has read nothing of the partition
                position = source.starts.get(partition, 0) if given is None else given.offset
                if position > end:
                    unknown.add(topic)  # recreated, or truncated
                    continue
                before = self._progress.get(unit)
                if before is None or position < before.position:
                    before = self._begun(position, end, now, wall_ms)
                before.applied(position)
                before.end_fetched(end, source.fetched_at)
                progress[unit] = before
        self._progress = progress
        self._unknown = frozenset(unknown)
        self._looked_at = now

    def _begun(self, position: int, end: int, now: float, wall_ms: int) -> Progress:
        """The progress of a new unit. Its earlier staleness comes from the pipeline's heartbeat."""
        progress = Progress(position, end, answerable=False)
        if self._beat is not None and self._beat.caught_up_at is not None:
            progress.caught_up_at = now - max(0, wall_ms - self._beat.caught_up_at) / 1000
        return progress

    def _hear(self, now: float, wall_ms: int, committed: Mapping[Unit, Committed]) -> None:
        beats = [beat for each in committed.values() if (beat := parse_beat(each.metadata))]
        beat = max(beats, key=lambda each: each.at, default=None)
        unbroken = self._looked_at is not None and now - self._looked_at < SILENT_AFTER
        if beat is not None and beat != self._beat:
            seen_before = self._beat is not None
            self._same_since = now
            self._same_polls = 0
            # the age of the first heartbeat is known from its own timestamp only
            self._heard_at = now if seen_before else now - max(0, wall_ms - beat.at) / 1000
            self._beats = seen_before
        elif not unbroken:
            # no heartbeat could arrive while the broker was away
            self._same_since = now
        self._same_polls += 1
        self._beat = beat

    def _state(self, now: float) -> str:
        if self._looked_at is None or now - self._looked_at > self._trusted_for:
            return UNKNOWN
        beat = self._beat
        if beat is None:
            # without heartbeats, the state depends on whether the group has members
            if self._has_members:
                return RUNNING
            has_committed = bool(self._progress or self._unknown)
            return STOPPED if has_committed and self._has_members is False else UNKNOWN
        if beat.state == STOPPED:
            return STOPPED
        assert self._same_since is not None
        silent = self._looked_at - self._same_since >= SILENT_AFTER
        if silent or self._same_polls > _SAME_POLLS:
            return STOPPED
        return beat.state if self._beats else UNKNOWN

    def status(self, now: float) -> Status:
        """The status at `now`."""
        if self._looked_at is None:
            return _NOTHING
        beat, heard_at = self._beat, self._heard_at
        state = self._state(now)
        lags: dict[str, int | None] = dict.fromkeys(sorted(self._unknown))
        ages: list[float | None] = [None] * len(self._unknown)
        # before its first micro-batch, the pipeline's position is unknown
        starting = beat is not None and beat.state == STARTING
        for (topic, _), progress in self._progress.items():
            lag = None if starting else progress.lag(now, self._trusted_for)
            so_far = lags.get(topic, 0)
            lags[topic] = None if lag is None or so_far is None else so_far + lag
            ages.append(None if starting else progress.staleness(now))
        known = [lag for lag in lags.values() if lag is not None]
        old = [age for age in ages if age is not None]
        return Status(
            state,
            None if beat is None or heard_at is None else max(0.0, now - heard_at),
            beat.error if beat is not None and state in (FAILED, STOPPED) else None,
            sum(known) if lags and len(known) == len(lags) else None,
            max(old) if ages and len(old) == len(ages) else None,
            lags,
        )

    def headers(self, now: float) -> tuple[Header, ...]:
        """Headers for every answer of its views. On the hot path, so cached for 0.25 s."""
        if now >= self._headers_until:
            status = self.status(now)
            self._headers = (
                (b"pipeline-lag", _word(status.lag)),
                (b"pipeline-staleness", _word(_ms(status.staleness))),
                (b"pipeline-state", status.state.encode()),
            )
            self._headers_until = now + _REFRESHED
        return self._headers


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _word(number: int | None) -> bytes:
    return b"unknown" if number is None else b"%d" % number
