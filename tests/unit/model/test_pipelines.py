"""Tests of the freshness of pipelines: lag, staleness and state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from model.pipelines.status import (
    FAILED,
    RUNNING,
    STARTING,
    STOPPED,
    UNKNOWN,
    CommittedOffset,
    LogOffsets,
    Pipeline,
    parse_heartbeat,
)

WALL = 1_700_000_000_000


class PolledPipeline:
    """A pipeline with a clock; `poll` records a poll. The source topic has two partitions."""

    def __init__(self) -> None:
        self.pipeline = Pipeline("job", trusted_for_s=5)
        self.now = 100.0
        self.committed: dict[tuple[str, int], CommittedOffset] = {}
        self.ends: dict[str, dict[int, int]] = {"raw": {0: 0, 1: 0}}
        self.starts: dict[str, dict[int, int]] = {}
        self.high_watermarks: dict[int, int] = {}

    def commit(self, *offsets: int, **heartbeat: Any) -> PolledPipeline:
        """Commit an offset per partition, and a heartbeat with the first one."""
        text = json.dumps(heartbeat) if heartbeat else ""
        self.committed = {("raw", p): CommittedOffset(o, "") for p, o in enumerate(offsets)}
        self.committed["raw", 0] = CommittedOffset(offsets[0], text)
        return self

    def poll(self, after: float = 1.0, has_members: bool | None = None) -> Any:
        self.now += after
        ends = {
            t: LogOffsets(self.starts.get(t, {}), e, self.now, self.high_watermarks)
            for t, e in self.ends.items()
        }
        wall = WALL + round(self.now * 1000)
        self.pipeline.record_poll(self.now, wall, self.committed, ends, has_members)
        return self.status()

    def status(self, after: float = 0.0) -> Any:
        self.now += after
        return self.pipeline.status(self.now)

    def headers(self) -> dict[bytes, bytes]:
        return dict(self.pipeline.headers(self.now))


def test_everything_is_unknown_before_the_first_poll() -> None:
    pipeline = PolledPipeline()
    status = pipeline.status()
    assert (status.state, status.lag, status.staleness) == (UNKNOWN, None, None)
    assert set(pipeline.headers().values()) == {b"unknown"}


def test_the_lag_is_the_number_of_source_records_after_the_committed_offsets() -> None:
    pipeline = PolledPipeline()
    pipeline.ends = {"raw": {0: 10, 1: 20}}
    assert pipeline.commit(4, 20).poll().lag == 6
    pipeline.ends = {"raw": {0: 10, 1: 25}}
    status = pipeline.commit(10, 20).poll()
    assert (status.lag, dict(status.sources)) == (5, {"raw": 5})
    assert pipeline.commit(10, 25).poll().lag == 0


def test_a_partition_without_a_committed_offset_counts_from_its_log_start() -> None:
    pipeline = PolledPipeline()
    pipeline.ends, pipeline.starts = {"raw": {0: 10, 1: 20}}, {"raw": {1: 5}}
    assert pipeline.commit(10).poll().lag == 15


def test_staleness_is_the_time_since_all_records_had_been_read() -> None:
    pipeline = PolledPipeline()
    pipeline.ends = {"raw": {0: 10, 1: 0}}
    assert pipeline.commit(10, 0).poll().staleness == 0
    pipeline.ends = {"raw": {0: 12, 1: 0}}
    assert pipeline.poll(after=2).staleness == 2
    assert pipeline.status(after=1).staleness == 3
    pipeline.ends = {"raw": {0: 14, 1: 0}}
    # under constant writes: the records of the first of these polls have been read
    assert pipeline.commit(12, 0).poll(after=1).staleness == 2


def test_an_open_transaction_in_the_source_makes_the_pipeline_stale() -> None:
    """Regression: it was as fresh as if nobody had to wait for the end of the transaction."""
    pipeline = PolledPipeline()
    pipeline.ends = {"raw": {0: 10, 1: 0}}
    assert pipeline.commit(10, 0).poll().staleness == 0
    pipeline.high_watermarks = {0: 14}
    pipeline.poll()
    status = pipeline.poll(after=29)
    assert (status.lag, status.staleness, status.open_transaction) == (0, 30, 29)
    assert pipeline.commit(14, 0).poll().lag == 0, "a reader of uncommitted records"
    pipeline.ends, pipeline.high_watermarks = {"raw": {0: 15, 1: 0}}, {0: 15}
    status = pipeline.commit(15, 0).poll()
    assert (status.lag, status.staleness, status.open_transaction) == (0, 0, None)


def test_the_time_that_is_left_and_that_a_rebuild_takes() -> None:
    pipeline = PolledPipeline()
    pipeline.ends, pipeline.starts = {"raw": {0: 1000, 1: 3000}}, {"raw": {1: 500}}
    status = pipeline.commit(0, 500).poll()
    assert (status.seconds_left, status.rebuild_seconds) == (None, None), "no rate is known"
    for at, rate in ((0, 10.0), (1000, 700.0), (2000, 100.0)):
        running = {"state": "running", "at": WALL + at, "stats": {"processed_rate": rate}}
        status = pipeline.commit(500, 2500, **running).poll()
    assert status.lag == 1000
    assert status.seconds_left == pytest.approx(10), "at the rate of the last micro-batch"
    assert status.rebuild_seconds == pytest.approx(3500 / 700), "at the greatest rate so far"
    document = status.document("g")
    assert (document["seconds_left"], document["rebuild_seconds"]) == (10.0, 5.0)
    done = {"state": "running", "at": WALL + 3000, "stats": {"processed_rate": 0.0}}
    assert pipeline.commit(1000, 3000, **done).poll().seconds_left == 0
    paused = {"state": "paused", "at": WALL + 4000, "stats": {"processed_rate": 100.0}}
    assert pipeline.commit(500, 3000, **paused).poll().seconds_left is None


def test_a_new_backend_takes_the_staleness_from_the_heartbeat() -> None:
    pipeline = PolledPipeline()
    pipeline.ends = {"raw": {0: 10, 1: 0}}
    pipeline.now = 199.0
    pipeline.commit(7, 0, state="stopped", at=WALL + 150_000, caught_up_at=WALL + 140_000)
    status = pipeline.poll()
    assert (status.lag, status.staleness) == (3, pytest.approx(60))
    assert pipeline.poll(after=5).staleness == pytest.approx(65)


def test_older_values_of_moved_keys_are_as_old_as_the_pipeline_says() -> None:
    """Regression: the staleness was 0, because all records had been read."""
    pipeline = PolledPipeline()
    pipeline.ends = {"raw": {0: 10, 1: 0}}
    pipeline.now = 199.0
    doubtful = {"state": "running", "at": WALL + 199_000}
    status = pipeline.commit(10, 0, **doubtful, moved_keys_since=WALL + 140_000).poll()
    assert (status.lag, status.staleness) == (0, pytest.approx(60))
    assert pipeline.poll(after=5).staleness == pytest.approx(65)
    pipeline.commit(10, 0, **doubtful, moved_keys_since=0)
    assert pipeline.poll().staleness is None, "since the load"
    assert pipeline.commit(10, 0, **doubtful).poll().staleness == 0


def test_a_dead_job_counts_as_stopped_even_if_polls_are_slow() -> None:
    """Polls are slow with many groups, or if the leader of a source partition does not answer."""
    pipeline = PolledPipeline()
    pipeline.commit(8, 0, state="running", at=1).poll()
    assert pipeline.commit(8, 0, state="running", at=2).poll(after=4).state == RUNNING
    states = [pipeline.poll(after=4).state for _ in range(6)]
    assert states[-1] == STOPPED
    assert states.count(RUNNING) >= 2, (
        "the first poll after a break may come before the next heartbeat"
    )
    assert pipeline.commit(8, 0, state="running", at=3).poll(after=4).state == RUNNING


def test_the_state_is_unknown_after_a_long_outage_of_the_broker() -> None:
    pipeline = PolledPipeline()
    pipeline.ends = {"raw": {0: 10, 1: 0}}
    pipeline.commit(8, 0, state="running", at=1).poll()
    pipeline.commit(8, 0, state="running", at=2).poll()
    assert (pipeline.status(4).state, pipeline.status().lag) == (RUNNING, 2)
    assert (pipeline.status(2).state, pipeline.status().lag) == (UNKNOWN, None)
    assert pipeline.headers()[b"pipeline-lag"] == b"unknown"


def test_the_lag_of_a_truncated_or_deleted_topic_is_unknown() -> None:
    pipeline = PolledPipeline()
    pipeline.ends = {"raw": {0: 3, 1: 0}}
    status = pipeline.commit(10, 0).poll()
    assert (status.lag, status.staleness, dict(status.sources)) == (None, None, {"raw": None})
    pipeline.ends = {}
    assert pipeline.poll().lag is None


def test_a_pipeline_that_starts_again_lags_again() -> None:
    pipeline = PolledPipeline()
    pipeline.ends = {"raw": {0: 10, 1: 0}}
    assert pipeline.commit(10, 0).poll().lag == 0
    status = pipeline.commit(2, 0).poll()
    assert (status.lag, status.staleness) == (8, None)


def test_a_pipeline_is_running_while_its_heartbeats_change() -> None:
    pipeline = PolledPipeline()
    # after one heartbeat, the pipeline may have stopped
    assert pipeline.commit(0, 0, state="running", at=1).poll().state == UNKNOWN
    for at in (2, 3, 4):
        assert pipeline.commit(0, 0, state="running", at=at).poll().state == RUNNING
    assert pipeline.status(0.5).heard_ago == 0.5


def test_a_silent_pipeline_counts_as_stopped_within_five_seconds() -> None:
    pipeline = PolledPipeline()
    pipeline.commit(0, 0, state="running", at=1).poll()
    pipeline.commit(0, 0, state="running", at=2).poll()
    killed = pipeline.now - 1  # at worst, just after the previous poll
    while pipeline.poll().state == RUNNING:
        assert pipeline.now - killed < 5
    assert pipeline.status().state == STOPPED
    assert pipeline.headers()[b"pipeline-state"] == b"stopped"
    assert pipeline.status().lag == 0, "its lag is still known"
    assert pipeline.commit(0, 0, state="running", at=3).poll().state == RUNNING


def test_a_new_backend_detects_a_dead_pipeline() -> None:
    pipeline = PolledPipeline()
    pipeline.commit(0, 0, state="running", at=WALL).poll()
    states = [pipeline.poll().state for _ in range(3)]
    assert states == [UNKNOWN, UNKNOWN, STOPPED]
    assert pipeline.status().heard_ago == pytest.approx(104, abs=0.01), (
        "according to the timestamp in the heartbeat"
    )


def test_an_outage_of_the_broker_does_not_count_as_silence() -> None:
    pipeline = PolledPipeline()
    pipeline.commit(0, 0, state="running", at=1).poll()
    pipeline.commit(0, 0, state="running", at=2).poll()
    assert pipeline.poll(after=4).state == RUNNING, "the first poll after an outage"
    assert pipeline.commit(0, 0, state="running", at=3).poll().state == RUNNING


def test_the_state_in_the_heartbeat() -> None:
    pipeline = PolledPipeline()
    pipeline.ends = {"raw": {0: 9, 1: 0}}
    pipeline.commit(0, 0, state="starting", at=1).poll()
    status = pipeline.commit(0, 0, state="starting", at=2).poll()
    assert (status.state, status.lag) == (STARTING, None), "its position is not known yet"
    status = pipeline.commit(3, 0, state="failed", at=3, error="no\nmemory").poll()
    assert (status.state, status.error, status.lag) == (FAILED, "no memory", 6)
    status = pipeline.commit(3, 0, state="stopped", at=4, error="no memory").poll()
    assert (status.state, status.error) == (STOPPED, "no memory")


def test_without_heartbeats_the_state_depends_on_the_groups_members() -> None:
    pipeline = PolledPipeline().commit(0, 0)
    assert pipeline.poll(has_members=True).state == RUNNING
    assert pipeline.poll(has_members=False).state == STOPPED
    assert pipeline.poll(has_members=None).state == UNKNOWN
    unused = PolledPipeline()
    unused.ends = {}
    assert unused.poll(has_members=False).state == UNKNOWN


def test_a_heartbeat_may_end_with_a_zero_byte() -> None:
    heartbeat = parse_heartbeat('{"state":"failed","at":1,"error":"x"}\0')
    assert heartbeat is not None
    assert (heartbeat.state, heartbeat.error) == ("failed", "x")


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
def test_other_metadata_is_not_a_heartbeat(metadata: str) -> None:
    assert parse_heartbeat(metadata) is None


def test_headers_are_cached() -> None:
    pipeline = PolledPipeline()
    pipeline.commit(0, 0, state="running", at=1).poll()
    headers = pipeline.pipeline.headers(pipeline.now)
    assert pipeline.pipeline.headers(pipeline.now + 0.2) is headers
    assert pipeline.pipeline.headers(pipeline.now + 0.5) is not headers
