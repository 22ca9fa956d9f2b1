"""The status of an instance: its store partitions, and whether it is ready and live."""

from __future__ import annotations

import time
from typing import Any

from backend.admin.redundancy import redundancy
from backend.admin.vitals import vitals
from backend.cluster.liveness import RUNNING, STARTING
from backend.ingest.store_partitions import StorePartition
from backend.instance.context import InstanceContext
from backend.security.browser_rules import parse_hosts
from backend.wire.view_names import by_request_name
from model.changes import deployments
from model.machine.clock import boot_time
from model.view_versions import ViewVersions, split_name
from model.views import View

_STUCK_AFTER = 30.0  # s without an iteration of the ingest loop


def instance_document(context: InstanceContext) -> dict[str, Any]:
    """The document of /instance."""
    now = boot_time()
    trusted_for = context.settings.ends_trusted_for
    return {
        "id": context.settings.instance_id,
        "state": context.group.state,
        "drained": context.group.drained,
        "epoch": str(context.group.topology.epoch),
        "broker": broker_document(context, now),
        "process": vitals(context.settings.data_dir),
        "requests": requests_document(context),
        "ended_threads": [name for name, runs in threads(context).items() if not runs],
        "partitions": [
            partition_document(store_partition, now, trusted_for)
            for store_partition in context.store_partitions.all()
        ]
        + [
            {
                "view": view,
                "partition": partition,
                "role": role,
                **_opening(context, view, partition),
            }
            for (view, partition), role in context.ingest_loop.opening().items()
        ],
        "rebuilds": context.ingest_loop.rebuilds,
        "pushes": [] if context.pushes is None else context.pushes.documents(context.views),
        "lost": [instance.document() for instance in context.group.lost.all()],
        "views": versions_document(context.group.versions),
        **service_document(context),
    }


def broker_document(context: InstanceContext, now: float) -> dict[str, Any] | None:
    """{"silent_ms": time since the broker last answered, "is_silent": whether the lag is unknown
    because of this}; None if it has not answered yet, or is not asked anything: this instance has
    no partitions, or the topics do not exist."""
    polled = [m.fetched_boot_time for m in list(context.metadata_poller.latest.values())]
    if not polled:
        return None
    silent = max(0.0, now - max(polled))
    trusted_for = context.settings.ends_trusted_for
    return {"silent_ms": round(silent * 1000), "is_silent": silent > trusted_for}


def requests_document(context: InstanceContext) -> dict[str, Any]:
    """{"per_second", "p99_ms": None without requests}, for the last minute."""
    recent = context.telemetry.latencies.recent()
    return {
        "per_second": round(recent.requests_per_s, 2),
        "p99_ms": None if recent.p99 is None else round(recent.p99 * 1000, 2),
    }


def versions_document(versions: ViewVersions) -> dict[str, Any]:
    """{view: {"current": version or null, "hashes": {version: hash}}}, of this instance."""
    return {
        base: {
            "current": None if current is None else split_name(current)[1],
            "hashes": {str(version): view.hash for version, view in views.items()},
        }
        for base, views in versions.by_base.items()
        for current in [versions.current.get(base)]
    }


def service_document(context: InstanceContext) -> dict[str, Any]:
    """{"service": its name and current deployment}; empty if the deployment has no service."""
    service = context.settings.service
    return {"service": deployments.document(service, context.group.deployment)} if service else {}


def proxy_document(context: InstanceContext) -> dict[str, Any]:
    """What a proxy learns from /processors in addition to the topology."""
    settings, views = context.settings, context.views.values()
    document: dict[str, Any] = {
        "application_id": settings.application_id,
        "max_key_bytes": context.constants.max_key_bytes,
        "forward_timeout": context.constants.forward_timeout,
        **service_document(context),
    }
    if settings.auth != "off":
        document["token_headers"] = ["Authorization", *filter(None, [settings.jwt_header])]
    if hosts := parse_hosts(settings.allowed_hosts):
        document["allowed_hosts"] = sorted(hosts)
    if quotas := {view.name: str(view.quota) for view in views if view.quota is not None}:
        document["quotas"] = by_request_name(quotas, context.group.versions)
    return document


def quota_document(view: View) -> dict[str, Any]:
    """{"quota": "5000/s"}; empty if the view has none."""
    return {} if view.quota is None else {"quota": str(view.quota)}


def unreadable_document(context: InstanceContext, view: str) -> dict[str, Any]:
    """{"unreadable": {"values", "keys": records that are not in the view's formats, "partitions":
    those of this instance, which are counted}}."""
    opened = [p.metadata for p in list(context.store_partitions.for_view(view).values())]
    return {
        "unreadable": {
            "values": sum(m.unreadable_values for m in opened),
            "keys": sum(m.unreadable_keys for m in opened),
            "partitions": len(opened),
        }
    }


def pipeline_document(context: InstanceContext, view: str) -> dict[str, Any]:
    """{"pipeline": the state of the view's pipeline}; empty if the view names none."""
    pipeline = context.pipelines.get(view)
    if pipeline is None:
        return {}
    return {"pipeline": pipeline.status(boot_time()).document(pipeline.group)}


def _opening(context: InstanceContext, view: str, partition: int) -> dict[str, Any]:
    copying = context.snapshot_fetcher.under_way().get((view, partition))
    if copying is None or copying.is_waiting:
        return {"state": "opening"}
    return {"state": "copying", "source": copying.source, "copied_bytes": copying.received}


def partition_document(
    store_partition: StorePartition, now: float, trusted_for: float
) -> dict[str, Any]:
    """The document of one store partition; `estimates` lists the fields that are not exact."""
    progress = store_partition.progress
    staleness, held = progress.staleness(now), progress.open_transaction
    seconds_left = store_partition.seconds_left(now)
    return {
        "view": store_partition.view.name,
        "partition": store_partition.partition,
        "role": store_partition.role,
        "state": progress.state,
        "waiting_for": None
        if store_partition.waiting_for is None
        else store_partition.waiting_for.state,
        "started": progress.started_position,
        "position": progress.position,
        "goal": progress.target_offset,
        "end": progress.end,
        "lag": progress.lag(now, trusted_for),
        "staleness": None if staleness is None else round(staleness * 1000),
        "open_transaction": None if held is None else round(held * 1000),
        "seconds_left": None if seconds_left is None else round(seconds_left, 1),
        "size_bytes": store_partition.store.size(),
        "entries": store_partition.entries(),
        "estimates": []
        if store_partition.view.is_custom
        else ["size_bytes", "entries"],  # by RocksDB
        "dead_letters": store_partition.metadata.dead_letters,
        "unreadable_values": store_partition.metadata.unreadable_values,
        "unreadable_keys": store_partition.metadata.unreadable_keys,
        "mis_partitioned": store_partition.metadata.mispartitioned,
        "push": store_partition.metadata.push or None,
        "building": [] if store_partition.indexes is None else store_partition.indexes.unready,
    }


def readiness(context: InstanceContext) -> tuple[bool, dict[str, Any]]:
    """Whether all partitions assigned to this instance are answerable, and the document of
    /health/ready.

    A view whose topic has no partitions yet does not count: a new deployment is ready before its
    topics exist. If the data folder has stores of the view, the topic had partitions, and its reads
    were answered. Then an instance that starts does not become ready, so that a rolling restart
    with missing permissions stops. One that was ready stays so: it answers for the other views.
    """
    document = instance_document(context)
    waiting = [p for p in document["partitions"] if p["state"] != "answerable"]
    listed = context.group.me in context.group.topology.members
    no_partitions = _views_without_partitions(context)
    is_lost = any(view["had_partitions"] for view in no_partitions)
    ready = context.group.state == RUNNING and listed and not waiting
    ready = ready and (context.group.has_been_ready or not is_lost)
    context.group.has_been_ready |= ready
    return ready, {
        "ready": ready,
        "state": context.group.state,
        "in_topology": listed,
        "answerable": len(document["partitions"]) - len(waiting),
        "redundancy": redundancy(context),
        "waiting": waiting,
        "without_partitions": no_partitions,
    }


def _views_without_partitions(context: InstanceContext) -> list[dict[str, Any]]:
    """[{"view", "topic", "had_partitions"}]: the views that have no partitions in the topology,
    because the topic does not exist or instances may not describe it. `had_partitions`: whether the
    data folder has stores of the view."""
    dropped, placed = context.group.versions.dropped, context.group.topology.views
    empty = [
        view
        for name, view in context.views.items()
        if name not in dropped and name in placed and not placed[name].partitions
    ]
    on_disk = context.on_disk() if empty else {}
    return [
        {
            "view": view.name,
            "topic": view.topic,
            "had_partitions": bool(on_disk.get(view.name)),
        }
        for view in empty
    ]


_THREADS = ("member", "ingest", "watcher")


def threads(context: InstanceContext) -> dict[str, bool]:
    """Thread -> whether it runs. Empty until the broker has answered, because the threads start
    then. Until then, the instance counts as live."""
    running = {
        "member": context.member.alive,
        "ingest": context.ingest_loop.alive,
        "watcher": context.metadata_poller.alive,
    }
    return {} if context.group.state == STARTING and not any(running.values()) else running


def liveness(context: InstanceContext) -> tuple[bool, dict[str, Any]]:
    """Whether all threads run and the ingest loop makes progress, and the document of
    /health/live."""
    silent = time.monotonic() - context.ingest_loop.progress_at
    running = threads(context)
    alive = not running or (all(running.values()) and silent < _STUCK_AFTER)
    return alive, {
        "alive": alive,
        "threads": running or dict.fromkeys(_THREADS, False),
        "ingest_silent_seconds": round(silent, 1),
        "failure": context.ingest_loop.failure,
    }
