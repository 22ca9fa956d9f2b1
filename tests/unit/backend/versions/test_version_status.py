"""When a version may become current: only if it is complete, as far as is known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from backend.admin.completeness import Completeness, Missing, wait_until_complete
from backend.admin.instance_status import instance_document
from backend.admin.version_status import Statuses, versions_status, why_no_rollback
from model.machine.clock import boot_time
from model.pipelines.status import CommittedOffset, LogOffsets, Pipeline
from tests.support.in_process.versioned import SECOND, Deployment, two_versions

MAX_LAG = 10
GROUP = "spark-orders"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Deployment]:
    with two_versions(tmp_path) as deployment:
        fetch_ends(deployment)
        yield deployment


def fetch_ends(made: Deployment, end: int = 100) -> None:
    """Every instance gets the ends of its topics."""
    for context in made.contexts.values():
        for opened in context.store_partitions.all():
            opened.progress.end_fetched(end, boot_time())


def statuses(made: Deployment) -> dict[str, Any]:
    return {id_: instance_document(context) for id_, context in made.contexts.items()}


def completeness(made: Deployment, ago: float = 10.0, **more: Any) -> Completeness:
    return Completeness(made.contexts["b1"], [SECOND], boot_time() - ago, at_once=True, **more)


def missing(made: Deployment, given: Statuses | None = None, **more: Any) -> Missing | None:
    """What is missing of what was written 10 s ago."""
    return completeness(made, **more).missing(given or statuses(made), boot_time())


def why_not(made: Deployment, given: Statuses | None = None, **more: Any) -> str:
    found = missing(made, given, **more)
    return "" if found is None else found.why


class Job:
    """The job that derives the topic of version 2 from 1,000 records of a topic, at this offset."""

    def __init__(self, made: Deployment, state: str = "running", offset: int = 1000) -> None:
        self.pipeline = Pipeline(GROUP, 60.0)
        self.state, self.offset, self.end, self._at = state, offset, 1000, 0
        made.contexts["b1"].pipelines = {SECOND.name: self.pipeline}
        self.poll()
        self.poll()  # a second heartbeat: it is alive

    def poll(self) -> None:
        self._at += 1
        heartbeat = orjson.dumps({"state": self.state, "at": self._at}).decode()
        now = boot_time()
        self.pipeline.record_poll(
            now, 0, {("raw", 0): CommittedOffset(self.offset, heartbeat)},
            {"raw": LogOffsets({0: 0}, {0: self.end}, now)}, True,
        )  # fmt: skip


def partition_of_second(made: Deployment, instance: str) -> Any:
    return next(
        opened for opened in made.contexts[instance].store_partitions.all() if opened.view == SECOND
    )


def test_a_version_that_has_everything_everywhere_is_complete(made: Deployment) -> None:
    assert missing(made) is None
    Job(made)
    assert missing(made) is None


def test_a_replica_that_lacks_a_record_is_not_complete(made: Deployment) -> None:
    progress = partition_of_second(made, "b2").progress
    progress.end_fetched(101, boot_time())
    assert missing(made) is None, "the record was written a moment ago"
    why = completeness(made, ago=-1.0).missing(statuses(made), boot_time())
    assert why is not None
    assert why.may_end
    progress = partition_of_second(made, "b2").progress
    progress.caught_up_at = boot_time() - 60
    found = missing(made)
    assert found is not None
    assert "1 of 3 replicas are up to 1 record behind its topic, such as" in found.why
    assert (found.lag, found.may_end) == (1, True)


def test_lag_within_a_given_bound_is_enough(made: Deployment) -> None:
    progress = partition_of_second(made, "b2").progress
    progress.caught_up_at = boot_time() - 60
    progress.end_fetched(100 + MAX_LAG, boot_time())
    assert missing(made, max_lag=MAX_LAG) is None
    progress.end_fetched(101 + MAX_LAG, boot_time())
    assert "11 records behind its topic" in why_not(made, max_lag=MAX_LAG)
    assert "at most 10 may be missing" in why_not(made, max_lag=MAX_LAG)


def test_an_unknown_age_is_not_complete(made: Deployment) -> None:
    """The broker has not told the end of the topic for long."""
    progress = partition_of_second(made, "b1").progress
    progress.end_at = progress.caught_up_at = boot_time() - 3600
    assert "an unknown number of records behind" in why_not(made)
    assert "an unknown number of records behind" in why_not(made, max_lag=MAX_LAG)
    progress.caught_up_at = None
    assert "an unknown number of records behind" in why_not(made)


def test_a_replica_that_catches_up_is_not_ready(made: Deployment) -> None:
    partition_of_second(made, "b2").progress.answerable = False
    assert "1 of 3 replicas are not answerable, such as partition 1 on b2" in why_not(made)


def test_a_partition_that_an_instance_does_not_report_is_not_ready(made: Deployment) -> None:
    given = statuses(made)
    given["b2"]["partitions"] = [p for p in given["b2"]["partitions"] if p["view"] != SECOND.name]
    assert "partition 1 on b2: unknown" in why_not(made, given)


@pytest.mark.parametrize("status", [{"state": "unreachable", "error": "timed out"}, {}])
def test_an_instance_that_does_not_answer_is_not_ready(
    made: Deployment, status: dict[str, str]
) -> None:
    given = {**statuses(made), "b2": status}
    assert "instance b2 does not say how far it is" in why_not(made, given)


@pytest.mark.parametrize("views", [{}, {"orders": {"current": 1, "hashes": {"1": "x", "2": "y"}}}])
def test_an_instance_with_another_definition_is_not_ready(
    made: Deployment, views: dict[str, Any]
) -> None:
    """It would answer from another version, or not at all."""
    given = statuses(made)
    given["b2"]["views"] = views
    assert "instance b2 does not declare it, or declares it differently" in why_not(made, given)
    # an instance of an older release
    del given["b2"]["views"]
    assert "instance b2 does not declare it" in why_not(made, given)


@pytest.mark.parametrize("state", ["paused", "failed", "stopped"])
@pytest.mark.parametrize("offset", [0, 999, 1000])
def test_a_job_that_does_not_run_is_a_reason_at_once(
    made: Deployment, state: str, offset: int
) -> None:
    """Also if it has read everything: nobody would read what is written next."""
    Job(made, state, offset)
    for max_lag in (None, 10_000):
        found = missing(made, max_lag=max_lag)
        assert found is not None
        assert f"its pipeline {GROUP} is {state}" in found.why
        assert not found.may_end
        assert (found.lag, "behind" in found.why) == (1000 - offset, offset < 1000)
    context = made.contexts["b1"]
    assert f"is {state}" in (why_no_rollback(context, SECOND, statuses(made)) or "")


def test_a_job_that_is_starting_or_unknown_may_run_later(made: Deployment) -> None:
    Job(made, "starting")
    assert missing(made) == Missing(f"its pipeline {GROUP} is starting")
    made.contexts["b1"].pipelines = {SECOND.name: Pipeline(GROUP, 60.0)}
    assert missing(made) == Missing(f"its pipeline {GROUP} is not known to run")
    assert why_no_rollback(made.contexts["b1"], SECOND, statuses(made)) is None


@pytest.mark.parametrize(("offset", "ready"), [(1000, True), (999, False), (0, False)])
def test_a_job_must_have_read_its_sources_to_the_end(
    made: Deployment, offset: int, ready: bool
) -> None:
    """All records of the topic are read, but records of its sources are not in it yet."""
    Job(made, offset=offset)
    assert (missing(made) is None) is ready
    lag = 1000 - offset
    assert ready or f"{lag:,} record{'' if lag == 1 else 's'} behind its sources" in why_not(made)
    assert (missing(made, max_lag=MAX_LAG) is None) is (lag <= MAX_LAG)


def test_the_sources_that_are_behind_are_named(made: Deployment) -> None:
    """Regression: nobody saw that a switch waited for a topic that the job does not read any more,
    and whose offset is still committed."""
    job = Job(made)
    now = boot_time()
    heartbeat = orjson.dumps({"state": "running", "at": 99}).decode()
    committed = {("raw", 0): CommittedOffset(1000, heartbeat), ("left", 0): CommittedOffset(1)}
    raw, left = (LogOffsets({0: 0}, {0: end}, now) for end in (1000, 2001))
    job.pipeline.record_poll(now, 0, committed, {"raw": raw, "left": left}, True)
    assert why_not(made).endswith("2,000 records behind its sources (left: 2,000 records)")
    committed["gone", 0] = CommittedOffset(1)
    job.pipeline.record_poll(now, 0, committed, {"raw": raw, "left": left}, True)
    assert why_not(made).endswith(
        "is an unknown number of records behind its sources "
        "(gone: an unknown number of records, left: 2,000 records)"
    )
    job.state, job.offset = "paused", 998
    job.poll()
    assert why_not(made).endswith("is paused, 2 records behind its sources (raw: 2 records)")


def test_the_ends_are_those_of_the_moment_of_the_command(made: Deployment) -> None:
    """A job that is always a little behind is complete when it has read what was there before. The
    replicas must have what it has written since."""
    job = Job(made, offset=990)
    complete = Completeness(made.contexts["b1"], [SECOND], boot_time())
    job.end, job.offset = 1010, 1000
    job.poll()
    assert "behind its sources" in complete.missing(statuses(made), boot_time()).why
    job.end, job.offset = 1030, 1020
    job.poll()
    assert "behind its topic" in complete.missing(statuses(made), boot_time()).why
    fetch_ends(made)
    assert complete.missing(statuses(made), boot_time()) is None
    job.state = "paused"
    job.poll()
    assert "paused" in complete.missing(statuses(made), boot_time()).why


def test_an_estimate_follows_from_the_progress(made: Deployment) -> None:
    job = Job(made, offset=0)
    began = boot_time()
    complete = Completeness(made.contexts["b1"], [SECOND], began)
    first = complete.missing(statuses(made), boot_time())
    assert first is not None
    assert (first.lag, first.seconds_left) == (1000, None)
    job.offset = 750
    job.poll()
    found = complete.missing(statuses(made), boot_time())
    assert found is not None
    assert found.seconds_left is not None
    assert 0 < found.seconds_left < boot_time() - began
    document = replace(found, seconds_left=12.34).document()
    assert document == {"may_end": True, "lag": 250, "seconds_left": 12.3}
    assert replace(found, seconds_left=12.34).text.endswith("(raw: 250 records), about 12 s")


PUSH = {"view": SECOND.name, "push": "p2", "error": None, "transfers": []}


@pytest.mark.parametrize(
    ("pushes", "installed", "why"),
    [
        ([PUSH, PUSH], "p2", ""),
        ([PUSH, PUSH], "p1", "does not have its newest push p2 yet"),
        ([PUSH, PUSH], None, "does not have its newest push p2 yet"),
        ([PUSH, {**PUSH, "push": "p1"}], "p2", "do not all know the newest push"),
        ([PUSH, {**PUSH, "error": "no manifest"}], "p2", "cannot be used on b2: no manifest"),
        ([{**PUSH, "push": None}] * 2, None, "nothing has been pushed"),
    ],
)
def test_all_replicas_must_have_the_newest_push(
    made: Deployment, pushes: list[Any], installed: str | None, why: str
) -> None:
    given = statuses(made)
    for status, push in zip(given.values(), pushes, strict=True):
        status["pushes"] = [push]
        for partition in status["partitions"]:
            partition["push"] = installed
    pushed = replace(SECOND, push="pushes")
    complete = Completeness(made.contexts["b1"], [pushed], boot_time() - 10, at_once=True)
    found = complete.missing(given, boot_time())
    assert why in ("" if found is None else found.why)
    assert (found is None) is (not why)


def test_a_command_waits_while_that_may_help(
    made: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def ask(*_: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        fetch_ends(made)
        return statuses(made)

    monkeypatch.setattr("backend.admin.completeness.statuses_of", ask)
    monkeypatch.setattr("backend.admin.completeness._STEP", 0.001)

    def wait(patience: float) -> Missing | None:
        peers = cast(Any, None)
        context = made.contexts["b1"]
        return asyncio.run(wait_until_complete(context, peers, [SECOND], patience=patience))

    job = Job(made, offset=0)
    patience = 0.05
    while asked <= 1:  # a busy machine may need longer than that to ask
        asked = 0
        found = wait(patience)
        assert found is not None
        assert found.lag == 1000
        patience *= 2
        assert patience < 60
    asked = 0
    Job(made, "paused")
    assert wait(60) is not None
    assert asked == 1
    job = Job(made)
    monkeypatch.setattr("backend.admin.completeness.statuses_of", lambda *_: (job.poll(), ask())[1])
    assert wait(60) is None


def test_a_rollback_needs_an_answer_for_each_partition(made: Deployment) -> None:
    context, given = made.contexts["b1"], statuses(made)
    partition_of_second(made, "b2").progress.end_fetched(5000, boot_time())
    assert why_no_rollback(context, SECOND, given) is None, "lag is no reason"
    given["b2"] = {"state": "unreachable", "error": "timed out"}
    assert "partition 1" in (why_no_rollback(context, SECOND, given) or "")


def test_a_rollback_waits_for_no_job_that_runs(made: Deployment) -> None:
    job = Job(made, offset=999)
    context = made.contexts["b1"]
    assert why_no_rollback(context, SECOND, statuses(made)) is None
    job.end = 1_000_000
    job.poll()
    why = why_no_rollback(context, SECOND, statuses(made))
    assert (
        why == f"its pipeline {GROUP} is 999,001 records behind its sources (raw: 999,001 records)"
    )


def test_the_document_shows_all_versions(made: Deployment) -> None:
    made.switch(2)
    partition_of_second(made, "b2").progress.answerable = False
    document = versions_status(made.contexts["b1"], "orders", statuses(made))
    assert (document["current"], document["previous"], document["revision"]) == (2, 1, 1)
    first, second = document["versions"]
    assert (first["name"], first["replicas"], first["answerable"]) == ("orders@1", 2, 2)
    assert (second["name"], second["replicas"], second["answerable"]) == ("orders@2", 3, 2)
    [waiting] = second["waiting"]
    assert (waiting["partition"], waiting["instance"]) == (1, "b2")
    assert [i["declared"] for i in document["instances"]] == [[1, 2], [1, 2]]
