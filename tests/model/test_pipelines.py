"""The freshness of a pipeline: lag, staleness and state, from what the broker says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from model.pipelines import (
    FAILED,
    RUNNING,
    STARTING,
    STOPPED,
    UNKNOWN,
    Committed,
    Ends,
    Pipeline,
    parse_beat,
)

WALL = 1_700_000_000_000


class Look:
    """A pipeline with a clock: one look at the broker a call. The source has two partitions."""

    def __init__(self) -> None:
        self.pipeline = Pipeline("job", trusted_for=5)
        self.now = 100.0
        self.committed: dict[tuple[str, int], Committed] = {}
        self.ends: dict[str, dict[int, int]] = {"raw": {0: 0, 1: 0}}
        self.starts: dict[str, dict[int, int]] = {}

    def commit(self, *offsets: int, **beat: Any) -> Look:
        text = json.dumps(beat) if beat else ""
        self.committed = {("raw", p): Committed(o, "") for p, o in enumerate(offsets)}
        self.committed["raw", 0] = Committed(offsets[0], text)
        return self

    def look(self, after: float = 1.0, has_members: bool | None = None) -> Any:
        self.now += after
        ends = {t: Ends(self.starts.get(t, {}), e, self.now) for t, e in self.ends.items()}
        wall = WALL + round(self.now * 1000)
        self.pipeline.looked(self.now, wall, self.committed, ends, has_members)
        return self.status()

    def status(self, after: float = 0.0) -> Any:
        self.now += after
        return self.pipeline.status(self.now)

    def headers(self) -> dict[bytes, bytes]:
        return dict(self.pipeline.headers(self.now))


def test_nothing_is_known_before_the_first_look() -> None:
    look = Look()
    status = look.status()
    assert (status.state, status.lag, status.staleness) == (UNKNOWN, None, None)
    assert set(look.headers().values()) == {b"unknown"}


def test_the_lag_is_what_the_sources_hold_beyond_what_was_committed() -> None:
    look = Look()
    look.ends = {"raw": {0: 10, 1: 20}}
    assert look.commit(4, 20).look().lag == 6
    look.ends = {"raw": {0: 10, 1: 25}}
    status = look.commit(10, 20).look()
    assert (status.lag, dict(status.sources)) == (5, {"raw": 5})
    assert look.commit(10, 25).look().lag == 0


def test_a_partition_without_a_committed_offset_counts_from_the_start_of_its_log() -> None:
    look = Look()
    look.ends, look.starts = {"raw": {0: 10, 1: 20}}, {"raw": {1: 5}}
    assert look.commit(10).look().lag == 15


def test_staleness_is_the_time_since_all_there_was_had_been_read() -> None:
    look = Look()
    look.ends = {"raw": {0: 10, 1: 0}}
    assert look.commit(10, 0).look().staleness == 0
    look.ends = {"raw": {0: 12, 1: 0}}
    assert look.look(after=2).staleness == 2
    assert look.status(after=1).staleness == 3
    look.ends = {"raw": {0: 14, 1: 0}}
    # under a constant stream: what was there at the first of these looks has been read
    assert look.commit(12, 0).look(after=1).staleness == 2


def test_a_backend_that_starts_learns_from_the_pipeline_how_stale_it_is() -> None:
    look = Look()
    look.ends = {"raw": {0: 10, 1: 0}}
    look.now = 199.0
    look.commit(7, 0, state="stopped", at=WALL + 150_000, caught_up_at=WALL + 140_000)
    status = look.look()
    assert (status.lag, status.staleness) == (3, pytest.approx(60))
    assert look.look(after=5).staleness == pytest.approx(65)


def test_a_dead_job_is_stopped_also_when_looks_are_slow() -> None:
    """Many groups, or a source topic whose leader does not answer."""
    look = Look()
    look.commit(8, 0, state="running", at=1).look()
    assert look.commit(8, 0, state="running", at=2).look(after=4).state == RUNNING
    states = [look.look(after=4).state for _ in range(6)]
    assert states[-1] == STOPPED
    assert states.count(RUNNING) >= 2, "one look after a break may come too early for the job"
    assert look.commit(8, 0, state="running", at=3).look(after=4).state == RUNNING


def test_it_says_unknown_when_the_broker_has_been_away_for_long() -> None:
    look = Look()
    look.ends = {"raw": {0: 10, 1: 0}}
    look.commit(8, 0, state="running", at=1).look()
    look.commit(8, 0, state="running", at=2).look()
    assert (look.status(4).state, look.status().lag) == (RUNNING, 2)
    assert (look.status(2).state, look.status().lag) == (UNKNOWN, None)
    assert look.headers()[b"pipeline-lag"] == b"unknown"


def test_a_topic_that_ends_before_what_was_committed_or_is_gone_has_no_known_lag() -> None:
    look = Look()
    look.ends = {"raw": {0: 3, 1: 0}}
    status = look.commit(10, 0).look()
    assert (status.lag, status.staleness, dict(status.sources)) == (None, None, {"raw": None})
    look.ends = {}
    assert look.look().lag is None


def test_a_pipeline_that_begins_anew_is_behind_again() -> None:
    look = Look()
    look.ends = {"raw": {0: 10, 1: 0}}
    assert look.commit(10, 0).look().lag == 0
    status = look.commit(2, 0).look()
    assert (status.lag, status.staleness) == (8, None)


def test_it_runs_while_its_heartbeats_change() -> None:
    look = Look()
    # one heartbeat may be of a pipeline that has ended since
    assert look.commit(0, 0, state="running", at=1).look().state == UNKNOWN
    for at in (2, 3, 4):
        assert look.commit(0, 0, state="running", at=at).look().state == RUNNING
    assert look.status(0.5).heard_ago == 0.5


def test_silence_is_a_stop_within_five_seconds() -> None:
    look = Look()
    look.commit(0, 0, state="running", at=1).look()
    look.commit(0, 0, state="running", at=2).look()
    killed = look.now - 1  # just after the look before, at worst
    while look.look().state == RUNNING:
        assert look.now - killed < 5
    assert look.status().state == STOPPED
    assert look.headers()[b"pipeline-state"] == b"stopped"
    assert look.status().lag == 0, "what it has read stays read"
    assert look.commit(0, 0, state="running", at=3).look().state == RUNNING


def test_a_backend_that_starts_finds_out_that_a_pipeline_is_dead() -> None:
    look = Look()
    look.commit(0, 0, state="running", at=WALL).look()
    states = [look.look().state for _ in range(3)]
    assert states == [UNKNOWN, UNKNOWN, STOPPED]
    assert look.status().heard_ago == pytest.approx(104, abs=0.01), "by the heartbeat's clock"


def test_while_the_broker_is_away_nobody_is_silent() -> None:
    look = Look()
    look.commit(0, 0, state="running", at=1).look()
    look.commit(0, 0, state="running", at=2).look()
    assert look.look(after=4).state == RUNNING, "the first look after an outage"
    assert look.commit(0, 0, state="running", at=3).look().state == RUNNING


def test_what_a_pipeline_says_of_itself() -> None:
    look = Look()
    look.ends = {"raw": {0: 9, 1: 0}}
    look.commit(0, 0, state="starting", at=1).look()
    status = look.commit(0, 0, state="starting", at=2).look()
    assert (status.state, status.lag) == (STARTING, None), "where it goes on from is not known yet"
    status = look.commit(3, 0, state="failed", at=3, error="no\nmemory").look()
    assert (status.state, status.error, status.lag) == (FAILED, "no memory", 6)
    status = look.commit(3, 0, state="stopped", at=4, error="no memory").look()
    assert (status.state, status.error) == (STOPPED, "no memory")


def test_without_heartbeats_the_members_of_the_group_tell() -> None:
    look = Look().commit(0, 0)
    assert look.look(has_members=True).state == RUNNING
    assert look.look(has_members=False).state == STOPPED
    assert look.look(has_members=None).state == UNKNOWN
    never_there = Look()
    never_there.ends = {}
    assert never_there.look(has_members=False).state == UNKNOWN


def test_a_heartbeat_may_end_as_a_text_in_c() -> None:
    beat = parse_beat('{"state":"failed","at":1,"error":"x"}\0')
    assert beat is not None
    assert (beat.state, beat.error) == ("failed", "x")


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"state":"running"}',
        '{"state":"odd","at":1}',
        '{"state":"running","at":"1"}',
        '{"state":["running"],"at":1}',
        '"running"',
        "AgAAAZ",
    ],
)
def test_what_is_no_heartbeat_is_passed_over(metadata: str) -> None:
    assert parse_beat(metadata) is None


def test_headers_cost_next_to_nothing_between_two_refreshes() -> None:
    look = Look()
    look.commit(0, 0, state="running", at=1).look()
    made = look.pipeline.headers(look.now)
    assert look.pipeline.headers(look.now + 0.2) is made
    assert look.pipeline.headers(look.now + 0.5) is not made
