"""How far the versions of a view are, on all instances. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.instance.context import QueryContext
from model.machine.clock import boot_time
from model.pipelines.status import FAILED, PAUSED, STOPPED, Status
from model.progress import ANSWERABLE
from model.view_versions import public_name
from model.views import View

MAX_WAITING = 20
"""The maximum number of partitions that a document lists as not ready; all are counted."""

_MAX_SOURCES = 5  # sources that a text names at most

Statuses = Mapping[str, Mapping[str, Any]]
"""The /instance document of each member, or its state and why there is none."""


def versions_status(context: QueryContext, base: str, statuses: Statuses) -> dict[str, Any]:
    """The document of `GET /views/{view}/versions`."""
    versions = context.group.versions
    state = versions.state(base)
    dropped = () if state is None else state.dropped
    return {
        "view": base,
        "current": None if state is None else state.current,
        "previous": None if state is None else state.previous,
        "dropped": list(dropped),
        "revision": 0 if state is None else state.revision,
        "epoch": str(context.group.topology.epoch),
        "versions": [_status(context, view, statuses) for view in versions.by_base[base].values()],
        "instances": [
            {
                "id": member.id,
                "state": (status := statuses.get(member.id, {})).get("state", "unknown"),
                "current": declared_by(status, base).get("current"),
                "declared": sorted(map(int, declared_by(status, base).get("hashes", {}))),
            }
            for member in context.group.topology.members
        ],
    }


def declared_by(status: Mapping[str, Any], base: str) -> Mapping[str, Any]:
    declared: Mapping[str, Any] = status.get("views", {}).get(base, {})
    return declared


def _status(context: QueryContext, view: View, statuses: Statuses) -> dict[str, Any]:
    """One version. `lag`: the greatest of all replicas, null if one is unknown. `entries` and
    `size_bytes`: of the actives."""
    placed = context.group.topology.views.get(view.name)
    reports = replicas_of(context, view, statuses)
    actives = [report for report in reports if report["role"] == "active"]
    waiting = [report for report in reports if report["state"] != ANSWERABLE]
    lags = [report["lag"] for report in reports]
    left = [report.get("seconds_left") for report in waiting]
    pipeline = context.pipelines.get(view.name)
    return {
        "version": view.version,
        "name": public_name(view.base, view.version),
        "topic": view.topic,
        "hash": view.hash,
        "partitions": 0 if placed is None else placed.partitions,
        "replicas": len(reports),
        "answerable": len(reports) - len(waiting),
        "lag": None if None in lags else max(lags, default=0),
        "entries": sum(report.get("entries") or 0 for report in actives),
        "size_bytes": sum(report.get("size_bytes") or 0 for report in actives),
        "seconds_left": None if None in left else max(left, default=0.0),  # type: ignore[type-var]
        "pipeline": None
        if pipeline is None
        else pipeline.status(boot_time()).document(pipeline.group),
        "waiting": [
            {name: report[name] for name in ("partition", "instance", "state", "lag")}
            for report in waiting[:MAX_WAITING]
        ],
    }


def replicas_of(context: QueryContext, view: View, statuses: Statuses) -> list[dict[str, Any]]:
    """What each holder reports about each of its partitions. If a partition has no holder, its
    state is `nobody`."""
    placed = context.group.topology.views.get(view.name)
    if placed is None:
        return []
    by_instance = {
        id_: {p["partition"]: p for p in status.get("partitions", ()) if p["view"] == view.name}
        for id_, status in statuses.items()
    }
    replicas: list[dict[str, Any]] = []
    for partition in range(placed.partitions):
        holders = placed.holders(partition)
        if not holders:
            replicas.append(
                {"partition": partition, "instance": None, "role": "", "state": "nobody"}
                | {"lag": None, "staleness": None}
            )
        for index in holders:
            id_ = context.group.topology.members[index].id
            report = by_instance.get(id_, {}).get(partition, {})
            known = {"state": "unknown", "lag": None, "staleness": None, "role": "", **report}
            replicas.append({**known, "partition": partition, "instance": id_})
    return replicas


def why_no_rollback(context: QueryContext, view: View, statuses: Statuses) -> str | None:
    """Why the version must not be current again; None if each partition has an answerable replica,
    and the version is still kept up to date. An unknown state is not a reason, because the version
    has been current before, and a rollback must not wait."""
    placed = context.group.topology.views.get(view.name)
    reports = replicas_of(context, view, statuses)
    answerable = {report["partition"] for report in reports if report["state"] == ANSWERABLE}
    missing = set(range(0 if placed is None else placed.partitions)) - answerable
    if placed is None or not placed.partitions:
        return f"its topic {view.topic} does not exist, or has no owners"
    if missing:
        return f"no instance is known to answer for its partition {min(missing)}"
    pipeline = context.pipelines.get(view.name)
    if pipeline is None:
        return None
    status = pipeline.status(boot_time())
    if status.state in NOT_RUNNING:
        return pipeline_is(pipeline.group, status)
    if status.lag is not None and status.lag > context.settings.acceptable_recovery_lag:
        return f"its pipeline {pipeline.group} is {behind_sources(status)}"
    return None


NOT_RUNNING = (PAUSED, FAILED, STOPPED)
"""The states of a pipeline that does not read its sources, and will not start to by itself."""


def pipeline_is(group: str, status: Status) -> str:
    """A text: the pipeline does not run, and how far it is behind."""
    error = f" ({status.error})" if status.error else ""
    behind = "" if status.lag == 0 else f", {behind_sources(status)}"
    return f"its pipeline {group} is {status.state}{error}{behind}"


def behind_sources(status: Status) -> str:
    """A text: how far a pipeline is behind, and on which topics. One of them may be a source that
    the pipeline has left."""
    lags = sorted((topic, lag) for topic, lag in status.sources.items() if lag != 0)
    named = ", ".join(f"{topic}: {records(lag)}" for topic, lag in lags[:_MAX_SOURCES])
    more = f" and {len(lags) - _MAX_SOURCES} more" if len(lags) > _MAX_SOURCES else ""
    return f"{records(status.lag)} behind its sources" + (f" ({named}{more})" if named else "")


def records(lag: int | None) -> str:
    if lag is None:
        return "an unknown number of records"
    return f"{lag:,} record{'' if lag == 1 else 's'}"
