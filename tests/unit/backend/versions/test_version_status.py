"""When a version may become current: only if every replica has caught up, as far as is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backend.http.admin.version_status import (
    Statuses,
    versions_status,
    why_no_rollback,
    why_not_ready,
)
from backend.http.routes.meta import instance_document
from model.machine.clock import boot_time
from tests.support.in_process.versioned import SECOND, Deployment, two_versions

MAX_LAG = 10


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Deployment]:
    with two_versions(tmp_path) as deployment:
        for context in deployment.contexts.values():
            for opened in context.store_partitions.all():
                opened.progress.end_fetched(100, boot_time())
        yield deployment


def statuses(made: Deployment) -> dict[str, Any]:
    return {id_: instance_document(context) for id_, context in made.contexts.items()}


def why_not(made: Deployment, given: Statuses | None = None) -> str | None:
    return why_not_ready(made.contexts["b1"], SECOND, given or statuses(made), MAX_LAG)


def partition_of_second(made: Deployment, instance: str) -> Any:
    return next(
        opened for opened in made.contexts[instance].store_partitions.all() if opened.view == SECOND
    )


def test_a_version_that_has_caught_up_everywhere_is_ready(made: Deployment) -> None:
    assert why_not(made) is None


def test_lag_within_the_bound_is_ready(made: Deployment) -> None:
    progress = partition_of_second(made, "b2").progress
    progress.end_fetched(100 + MAX_LAG, boot_time())
    assert why_not(made) is None
    progress.end_fetched(101 + MAX_LAG, boot_time())
    assert "11 records behind its topic" in (why_not(made) or "")


def test_an_unknown_lag_is_not_ready(made: Deployment) -> None:
    """The broker has not told the end of the topic for long."""
    partition_of_second(made, "b1").progress.end_fetched(100, boot_time() - 3600)
    assert "an unknown number of records behind" in (why_not(made) or "")


def test_a_replica_that_catches_up_is_not_ready(made: Deployment) -> None:
    partition_of_second(made, "b2").progress.answerable = False
    assert "1 of 3 replicas are not answerable, such as partition 1 on b2" in (why_not(made) or "")


def test_a_partition_that_an_instance_does_not_report_is_not_ready(made: Deployment) -> None:
    given = statuses(made)
    given["b2"]["partitions"] = [p for p in given["b2"]["partitions"] if p["view"] != SECOND.name]
    assert "partition 1 on b2: unknown" in (why_not(made, given) or "")


@pytest.mark.parametrize("status", [{"state": "unreachable", "error": "timed out"}, {}])
def test_an_instance_that_does_not_answer_is_not_ready(
    made: Deployment, status: dict[str, str]
) -> None:
    given = {**statuses(made), "b2": status}
    assert "instance b2 does not say how far it is" in (why_not(made, given) or "")


@pytest.mark.parametrize("views", [{}, {"orders": {"current": 1, "hashes": {"1": "x", "2": "y"}}}])
def test_an_instance_with_another_definition_is_not_ready(
    made: Deployment, views: dict[str, Any]
) -> None:
    """It would answer from another version, or not at all."""
    given = statuses(made)
    given["b2"]["views"] = views
    assert "instance b2 does not declare it, or differently" in (why_not(made, given) or "")
    # an instance of an older release
    del given["b2"]["views"]
    assert "instance b2 does not declare it" in (why_not(made, given) or "")


@pytest.mark.parametrize(("lag", "ready"), [(0, True), (MAX_LAG, True), (11, False), (None, False)])
def test_a_pipeline_that_is_behind_is_not_ready(
    made: Deployment, lag: int | None, ready: bool
) -> None:
    """All records of the topic are read, but records of its sources are not in it yet."""
    status = SimpleNamespace(document=lambda group: {"group": group, "lag": lag})
    pipeline = SimpleNamespace(group="spark-orders", status=lambda now: status)
    made.contexts["b1"].pipelines = {SECOND.name: cast(Any, pipeline)}
    why = why_not(made)
    assert (why is None) is ready
    assert ready or "its pipeline spark-orders is" in (why or "")


def test_a_rollback_needs_an_answer_for_each_partition(made: Deployment) -> None:
    context, given = made.contexts["b1"], statuses(made)
    partition_of_second(made, "b2").progress.end_fetched(5000, boot_time())
    assert why_no_rollback(context, SECOND, given) is None, "lag is no reason"
    given["b2"] = {"state": "unreachable", "error": "timed out"}
    assert "partition 1" in (why_no_rollback(context, SECOND, given) or "")


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
