"""How far the versions of a view are, on all instances. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.instance_context import InstanceContext
from model.machine.clock import boot_time
from model.progress import ANSWERABLE
from model.topology import PlacedView
from model.versions import public_name
from model.views import View

MAX_WAITING = 20
"""The most partitions that a document lists as not ready; all are counted."""

Statuses = Mapping[str, Mapping[str, Any]]
"""The /instance of each member, or its state and why there is none."""


def versions_status(context: InstanceContext, base: str, statuses: Statuses) -> dict[str, Any]:
    """The document of `GET /views/{view}/versions`."""
    versions = context.versions
    state = versions.state(base)
    dropped = () if state is None else state.dropped
    return {
        "view": base,
        "current": None if state is None else state.current,
        "previous": None if state is None else state.previous,
        "dropped": list(dropped),
        "revision": 0 if state is None else state.revision,
        "epoch": str(context.topology.epoch),
        "versions": [_status(context, view, statuses) for view in versions.by_base[base].values()],
        "instances": [
            {
                "id": member.id,
                "state": (status := statuses.get(member.id, {})).get("state", "unknown"),
                "current": _declared(status, base).get("current"),
                "declared": sorted(map(int, _declared(status, base).get("hashes", {}))),
            }
            for member in context.topology.members
        ],
    }


def _declared(status: Mapping[str, Any], base: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = status.get("views", {}).get(base, {})
    return found


def _status(context: InstanceContext, view: View, statuses: Statuses) -> dict[str, Any]:
    """One version. `lag`: the greatest of all replicas, null if one is unknown. `entries` and
    `size_bytes`: of the actives."""
    placed = context.topology.views.get(view.name)
    reports = _replicas(context, view, placed, statuses)
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
        "entries": sum(each.get("entries") or 0 for each in actives),
        "size_bytes": sum(each.get("size_bytes") or 0 for each in actives),
        "seconds_left": None if None in left else max(left, default=0.0),  # type: ignore[type-var]
        "pipeline": None
        if pipeline is None
        else pipeline.status(boot_time()).document(pipeline.group),
        "waiting": [
            {name: report[name] for name in ("partition", "instance", "state", "lag")}
            for report in waiting[:MAX_WAITING]
        ],
    }


def _replicas(
    context: InstanceContext, view: View, placed: PlacedView | None, statuses: Statuses
) -> list[dict[str, Any]]:
    """What each holder says about each of its partitions. A partition without one is `nobody`."""
    if placed is None:
        return []
    by_instance = {
        id_: {p["partition"]: p for p in status.get("partitions", ()) if p["view"] == view.name}
        for id_, status in statuses.items()
    }
    found: list[dict[str, Any]] = []
    for partition in range(placed.partitions):
        holders = placed.holders(partition)
        if not holders:
            found.append(
                {"partition": partition, "instance": None, "role": "", "state": "nobody"}
                | {"lag": None}
            )
        for index in holders:
            id_ = context.topology.members[index].id
            report = by_instance.get(id_, {}).get(partition, {})
            known = {"state": "unknown", "lag": None, "role": "", **report}
            found.append({**known, "partition": partition, "instance": id_})
    return found


def why_not_ready(
    context: InstanceContext, view: View, statuses: Statuses, max_lag: int
) -> str | None:
    """Why the version must not become current; None if every replica of it has caught up, on
    instances that all declare it."""
    for member in context.topology.members:
        status = statuses.get(member.id, {})
        if "partitions" not in status:
            why = status.get("error") or status.get("state") or "unknown"
            return f"instance {member.id} does not say how far it is ({why})"
        if _declared(status, view.base).get("hashes", {}).get(str(view.version)) != view.hash:
            return (
                f"instance {member.id} does not declare it, or differently: give all instances "
                "the same views.toml"
            )
    found = _status(context, view, statuses)
    if not found["partitions"]:
        return f"its topic {view.topic} does not exist, or has no owners yet"
    if found["waiting"]:
        first = found["waiting"][0]
        return (
            f"{found['replicas'] - found['answerable']} of {found['replicas']} replicas are not "
            f"answerable, such as partition {first['partition']} on {first['instance']}: "
            f"{first['state']}"
        )
    if found["lag"] is None or found["lag"] > max_lag:
        lag = "an unknown number of" if found["lag"] is None else f"{found['lag']:,}"
        return f"it is {lag} records behind its topic; the most is {max_lag:,}"
    pipeline = found["pipeline"]
    if pipeline is not None and (pipeline["lag"] is None or pipeline["lag"] > max_lag):
        lag = "an unknown number of" if pipeline["lag"] is None else f"{pipeline['lag']:,}"
        return (
            f"its pipeline {pipeline['group']} is {lag} records behind its sources; the most is "
            f"{max_lag:,}"
        )
    return None


def why_no_rollback(context: InstanceContext, view: View, statuses: Statuses) -> str | None:
    """Why nobody could answer from the version; None if each partition has an answerable
    replica."""
    placed = context.topology.views.get(view.name)
    reports = _replicas(context, view, placed, statuses)
    answerable = {report["partition"] for report in reports if report["state"] == ANSWERABLE}
    missing = set(range(0 if placed is None else placed.partitions)) - answerable
    if placed is None or not placed.partitions:
        return f"its topic {view.topic} does not exist, or has no owners"
    if missing:
        return f"no instance is known to answer for its partition {min(missing)}"
    return None
