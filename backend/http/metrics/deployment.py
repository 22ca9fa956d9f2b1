"""Metrics of the instance in its group, of the whole deployment, and of pipelines and pushes."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from prometheus_client.core import Metric

from backend.admin.topology import LOST, redundancy_of
from backend.http.metrics.families import by_label, counter, gauge, single
from backend.instance.context import InstanceContext
from model.machine.clock import boot_time
from model.pipelines.stats import STATS
from model.pipelines.status import RUNNING, STARTING, UNKNOWN


def instance(context: InstanceContext) -> Iterator[Metric]:
    """The version of the instance, and its place in the group."""
    build = {
        "version": version("queryable-topics"),
        "python": platform.python_version(),
        "rocksdict": version("rocksdict"),
    }
    yield by_label(
        gauge("build_info", "Always 1; the labels are versions.", [*build]),
        [([*build.values()], 1)],
    )
    yield single(
        gauge("running", "1 while the instance is in the consumer group."),
        float(context.group.state == RUNNING),
    )
    yield by_label(
        gauge(
            "current_version",
            "The version from which this instance answers for the view's name.",
            ["view"],
        ),
        (
            ([view], context.group.versions.named[view].version)
            for view in sorted(
                context.group.versions.with_versions & context.group.versions.named.keys()
            )
        ),
    )
    yield single(
        gauge("topology_epoch_timestamp_seconds", "Time of the topology epoch (leader's clock)."),
        context.group.topology.epoch.ms / 1000,
    )
    rebalances = context.telemetry.rebalances
    yield single(counter("rebalances", "Topologies that were applied."), rebalances.count)
    yield by_label(
        counter(
            "rebalanced_partitions",
            "Store partitions that this instance got or lost by rebalances.",
            ["change"],
        ),
        ((["gained"], rebalances.gained), (["lost"], rebalances.lost)),
    )
    yield single(
        counter("rebalance_seconds", "Time from joining the group to the new topology."),
        context.member.rebalance_seconds,
    )


def redundancy(document: Mapping[str, Any]) -> Iterator[Metric]:
    """The redundancy of the whole deployment. Every instance reports the same. `document`: the
    content of /admin/topology.json."""
    families = {
        "partitions": gauge("view_partitions", "Partitions of the view.", ["view"]),
        "answerable": gauge(
            "view_partitions_answerable",
            "Partitions that are answerable on any instance.",
            ["view"],
        ),
        "standby_only": gauge(
            "view_partitions_standby_only",
            "Partitions that are answerable only on standbys.",
            ["view"],
        ),
        "below_replicas": gauge(
            "view_partitions_below_replicas",
            "Partitions that are answerable on too few instances.",
            ["view"],
        ),
    }
    for view, counts in redundancy_of(document).items():
        for name, number in counts.items():
            families[name].add_metric([view], number)
    yield from families.values()
    yield single(
        gauge("lost_instances", "Instances lost within the last hour that have not come back."),
        sum(instance["state"] == LOST for instance in document["instances"]),
    )


def pipelines(context: InstanceContext) -> Iterator[Metric]:
    """Metrics of pipelines, as Spark jobs report them."""
    labels = ["view", "group"]
    lag = gauge(
        "pipeline_lag_records",
        "Records in the view's source topics that its pipeline has not read.",
        labels,
    )
    staleness = gauge(
        "pipeline_staleness_seconds",
        "Time since the pipeline had read all records of its source topics.",
        labels,
    )
    held = gauge(
        "pipeline_open_transaction_seconds",
        "Time for which a transaction in a source has held the pipeline back, 0 if none.",
        labels,
    )
    running = gauge(
        "pipeline_running",
        "1 while the pipeline runs, 0 when it has failed, stopped or is paused.",
        labels,
    )
    reported = {
        name: (counter if stat.is_count else gauge)(f"pipeline_{stat.metric}", stat.text, labels)
        for name, stat in STATS.items()
    }
    now = boot_time()
    for view, pipeline in context.pipelines.items():
        status, label_values = pipeline.status(now), [view, pipeline.group]
        if status.lag is not None:
            lag.add_metric(label_values, status.lag)
        if status.staleness is not None:
            staleness.add_metric(label_values, status.staleness)
        held.add_metric(label_values, status.open_transaction or 0.0)
        if status.state != UNKNOWN:
            running.add_metric(label_values, float(status.state in (STARTING, RUNNING)))
            for name, number in status.stats.items():
                reported[name].add_metric(label_values, number / STATS[name].divisor)
    yield from (lag, staleness, held, running, *reported.values())


def pushes(context: InstanceContext) -> Iterator[Metric]:
    """Metrics of views with a folder for pushes."""
    pending = gauge(
        "push_pending_partitions",
        "Partitions of this instance that do not have the newest push of their view yet.",
        ["view"],
    )
    failed = gauge(
        "push_failed", "1 while the newest push cannot be read, verified or installed.", ["view"]
    )
    documents = [] if context.pushes is None else context.pushes.documents(context.views)
    for document in documents:
        view, push = document["view"], document["push"]
        held = list(context.store_partitions.for_view(view).values())
        behind = 0 if push is None else sum(p.metadata.push != push for p in held)
        errors = [document["error"], *(transfer["error"] for transfer in document["transfers"])]
        pending.add_metric([view], behind)
        failed.add_metric([view], float(any(errors)))
    yield from (pending, failed)
