"""How fresh a derived view can be: what its pipeline has read of its sources, and whether it runs.

A pipeline (Spark, Kafka Streams, any consumer) commits its position in its source topics to a
consumer group. What the sources hold beyond that is not in the view topic yet. A pipeline may
write a heartbeat into the metadata of one committed offset, as JSON: {"state": "starting",
"running", "failed" or "stopped", "at": epoch ms, "error": text, "caught_up_at": epoch ms at which
it had read all there was}. `at` changes with each one.

Times are seconds of one monotonic clock, given by the caller. Written by one thread, read by
others without a lock: what they read is replaced whole.
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

# s for which the heartbeat is the same while the broker answers. Looks are a second apart: the
# third one after the last heartbeat was seen says "stopped", within 5 s of the end.
SILENT_AFTER = 2.8
# Looks that show the same heartbeat, however far apart: slow looks do not hide a dead job.
_SAME_LOOKS = 6
_LONGEST_ERROR = 500
_REFRESHED = 0.25  # s for which headers are kept
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
    """A source topic: partition -> where its log starts and ends, told at `fetched_at`."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    fetched_at: float


@dataclass(frozen=True)
class Status:
    """Of a pipeline at one moment; None: unknown. Times in s.

    `heard_ago`: since its last heartbeat. `lag`: records that its sources hold beyond what it has
    read; `staleness`: since it last had read all there was. `sources`: lag by topic.
    """

    state: str
    heard_ago: float | None
    error: str | None
    lag: int | None
    staleness: float | None
    sources: Mapping[str, int | None]

    def document(self, group: str) -> dict[str, Any]:
        """As `GET /views/{view}` shows it; times in ms."""
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
    """None where it is no heartbeat: other programs write other things there."""
    if not metadata.startswith("{"):
        return None
    try:
        # librdkafka's clients send the byte that ends a text in C along
        said = orjson.loads(metadata.rstrip("\0"))
        state, at, error = said["state"], said["at"], said.get("error")
        caught_up_at = said.get("caught_up_at")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if state not in _TOLD or type(at) is not int:
        return None
    text = _CONTROL.sub(" ", error)[:_LONGEST_ERROR] if isinstance(error, str) else None
    return Beat(state, at, text, caught_up_at if type(caught_up_at) is int else None)


class Pipeline:
    """One consumer group, as it is seen from here."""

    def __init__(self, group: str, trusted_for: float) -> None:
        """`trusted_for`: s for which an answer of the broker is believed."""
        self.group = group
        self._trusted_for = trusted_for
        self._progress: dict[Unit, Progress] = {}
        self._unknown: frozenset[str] = frozenset()  # topics of which the lag cannot be told
        self._looked_at: float | None = None
        self._beat: Beat | None = None
        self._heard_at: float | None = None
        self._same_since: float | None = None  # looks have succeeded since, and shown one beat
        self._same_looks = 0  # since the beat changed
        self._beats = False  # whether the beat was seen to change
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
        """What the broker says at `now`. `committed` was fetched before the `topics`;
        `has_members`: of the group, None where it was not asked for."""
        self._hear(now, wall_ms, committed)
        self._has_members = has_members
        progress: dict[Unit, Progress] = {}
        unknown = {topic for topic, _ in committed if topic not in topics}
        for topic, told in topics.items():
            for partition, end in told.ends.items():
                unit = (topic, partition)
                given = committed.get(unit)
                # what a group has not committed it has not read
                position = told.starts.get(partition, 0) if given is None else given.offset
                if position > end:
                    unknown.add(topic)  # recreated, or truncated
                    continue
                before = self._progress.get(unit)
                if before is None or position < before.position:
                    before = self._begun(position, end, now, wall_ms)
                before.applied(position)
                before.end_fetched(end, told.fetched_at)
                progress[unit] = before
        self._progress = progress
        self._unknown = frozenset(unknown)
        self._looked_at = now

    def _begun(self, position: int, end: int, now: float, wall_ms: int) -> Progress:
        """Of what was before this instance looked, the pipeline itself knows how old it is."""
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
            self._same_looks = 0
            # of the first one that is seen only its own clock tells how old it is
            self._heard_at = now if seen_before else now - max(0, wall_ms - beat.at) / 1000
            self._beats = seen_before
        elif not unbroken:
            # while the broker was away, nobody could say anything
            self._same_since = now
        self._same_looks += 1
        self._beat = beat

    def _state(self, now: float) -> str:
        if self._looked_at is None or now - self._looked_at > self._trusted_for:
            return UNKNOWN
        beat = self._beat
        if beat is None:
            # one that writes no heartbeats: whether its group has members
            if self._has_members:
                return RUNNING
            has_committed = bool(self._progress or self._unknown)
            return STOPPED if has_committed and self._has_members is False else UNKNOWN
        if beat.state == STOPPED:
            return STOPPED
        assert self._same_since is not None
        silent = self._looked_at - self._same_since >= SILENT_AFTER
        if silent or self._same_looks > _SAME_LOOKS:
            return STOPPED
        return beat.state if self._beats else UNKNOWN

    def status(self, now: float) -> Status:
        """As of `now`."""
        if self._looked_at is None:
            return _NOTHING
        beat, heard_at = self._beat, self._heard_at
        state = self._state(now)
        lags: dict[str, int | None] = dict.fromkeys(sorted(self._unknown))
        ages: list[float | None] = [None] * len(self._unknown)
        # before its first micro-batch it has not said where it goes on from
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
        """Of every answer of its views; on the hot path, so made four times a second at most."""
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
