"""Prometheus metrics, collected on request: the hot path only increments plain numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from backend.http.admin.topology import LOST, redundancy_of
from backend.instance_context import InstanceContext
from model.pipelines.stats import STATS
from model.pipelines.status import RUNNING, STARTING, UNKNOWN

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Instance(Collector):
    def __init__(self, context: InstanceContext, topology: Callable[[], Mapping[str, Any]]) -> None:
        self._context = context
        self._topology = topology

    def collect(self) -> Iterator[Metric]:
        context = self._context
        reads = CounterMetricFamily(
            "queryable_point_reads", "Point reads by outcome.", labels=["view", "outcome"]
        )
        for view, counts in context.counts.items():
            for outcome in ("found", "missed", "unavailable", "forwarded", "refused"):
                reads.add_metric([view, outcome], getattr(counts, outcome))
        yield reads
        over_quota = CounterMetricFamily(
            "queryable_over_quota", "Requests above the quota of their view.", labels=["view"]
        )
        for view, number in context.over_quota.items():
            over_quota.add_metric([view], number)
        yield over_quota
        yield from self._scans()
        yield from self._partitions()
        yield from self._pipelines()
        yield from self._pushes()
        yield from self._redundancy()
        yield CounterMetricFamily(
            "queryable_rebuilds",
            "Store partitions that were rebuilt from scratch.",
            value=context.ingest_loop.rebuilds,
        )
        yield GaugeMetricFamily(
            "queryable_running", "1 while the instance is in the consumer group.",
            value=float(context.state == RUNNING),
        )  # fmt: skip
        current = GaugeMetricFamily(
            "queryable_current_version",
            "The version from which this instance answers for the view's name.",
            labels=["view"],
        )
        for view in sorted(context.versions.with_versions & context.versions.named.keys()):
            current.add_metric([view], context.versions.named[view].version)
        yield current
        epoch = context.topology.epoch
        yield GaugeMetricFamily(
            "queryable_topology_epoch_seconds", "Time of the topology epoch (leader's clock).",
            value=epoch.ms / 1000,
        )  # fmt: skip

    def _scans(self) -> Iterator[Metric]:
        labels = ["view", "kind"]
        asked = CounterMetricFamily(
            "queryable_scans", "Queries of whole views by clients.", labels=labels
        )
        seconds = CounterMetricFamily(
            "queryable_scan_seconds", "Duration of these queries, from start to end.", labels=labels
        )
        entries = CounterMetricFamily(
            "queryable_scan_entries",
            "Entries read here for queries of all instances.",
            labels=["view"],
        )
        for view, counts in self._context.scans.items():
            for kind, number in counts.requests.items():
                asked.add_metric([view, kind], number)
                seconds.add_metric([view, kind], counts.seconds[kind])
            entries.add_metric([view], counts.entries)
        yield from (asked, seconds, entries)

    def _redundancy(self) -> Iterator[Metric]:
        """Metrics of the whole deployment; every instance reports the same."""
        document = self._topology()
        families = {
            name: GaugeMetricFamily(f"queryable_view_partitions{suffix}", text, labels=["view"])
            for name, suffix, text in (
                ("partitions", "", "Partitions of the view."),
                ("answerable", "_answerable", "Partitions that are answerable on any instance."),
                (
                    "standby_only",
                    "_standby_only",
                    "Partitions that are answerable only on standbys.",
                ),
                (
                    "below_replicas",
                    "_below_replicas",
                    "Partitions that are answerable on too few instances.",
                ),
            )
        }
        for view, counts in redundancy_of(document).items():
            for name, number in counts.items():
                families[name].add_metric([view], number)
        yield from families.values()
        yield GaugeMetricFamily(
            "queryable_lost_instances",
            "Instances lost within the last hour that have not come back.",
            value=sum(instance["state"] == LOST for instance in document["instances"]),
        )

    def _pipelines(self) -> Iterator[Metric]:
        labels = ["view", "group"]
        lag = GaugeMetricFamily(
            "queryable_pipeline_lag",
            "Records in the view's source topics that its pipeline has not read.",
            labels=labels,
        )
        staleness = GaugeMetricFamily(
            "queryable_pipeline_staleness_seconds",
            "Time since the pipeline had read all records of its source topics.",
            labels=labels,
        )
        running = GaugeMetricFamily(
            "queryable_pipeline_running",
            "1 while the pipeline runs, 0 when it has failed, stopped or is paused.",
            labels=labels,
        )
        reported = {
            name: (CounterMetricFamily if stat.is_count else GaugeMetricFamily)(
                f"queryable_pipeline_{stat.metric}", stat.text, labels=labels
            )
            for name, stat in STATS.items()
        }
        now = time.monotonic()
        for view, pipeline in self._context.pipelines.items():
            status, at = pipeline.status(now), [view, pipeline.group]
            if status.lag is not None:
                lag.add_metric(at, status.lag)
            if status.staleness is not None:
                staleness.add_metric(at, status.staleness)
            if status.state != UNKNOWN:
                running.add_metric(at, float(status.state in (STARTING, RUNNING)))
                for name, number in status.stats.items():
                    reported[name].add_metric(at, number / STATS[name].divisor)
        yield from (lag, staleness, running, *reported.values())

    def _pushes(self) -> Iterator[Metric]:
        pending = GaugeMetricFamily(
            "queryable_push_pending",
            "Partitions of this instance that do not have the newest push of their view yet.",
            labels=["view"],
        )
        failed = GaugeMetricFamily(
            "queryable_push_failed",
            "1 while the newest push cannot be read, verified or installed.",
            labels=["view"],
        )
        context = self._context
        documents = [] if context.pushes is None else context.pushes.documents(context.views)
        for document in documents:
            view, push = document["view"], document["push"]
            held = list(context.store_partitions.of_view(view).values())
            behind = 0 if push is None else sum(each.metadata.push != push for each in held)
            errors = [document["error"], *(each["error"] for each in document["transfers"])]
            pending.add_metric([view], behind)
            failed.add_metric([view], float(any(errors)))
        yield from (pending, failed)

    def _partitions(self) -> Iterator[Metric]:
        labels = ["view", "partition"]
        families = {
            name: GaugeMetricFamily(f"queryable_{name}", text, labels=labels)
            for name, text in {
                "position": "Next offset that the store partition will apply.",
                "lag": "Records behind the last known end of the log.",
                "staleness_seconds": "Time since the partition was last known to be caught up.",
                "answerable": "1 if the store partition is answerable.",
                "size_bytes": "Bytes on disk and in memtables, estimated by RocksDB.",
            }.items()
        }
        counters = {
            name: CounterMetricFamily(f"queryable_{name}", text, labels=labels)
            for name, text in {
                "applied_records": "Records applied since the start.",
                "dead_letters": "Records that could not be decoded, since the store was created.",
                "mis_partitioned_records": "Records in a partition other than their key's.",
            }.items()
        }
        now = time.monotonic()
        for store_partition in self._context.store_partitions.all():
            at = [store_partition.view.name, str(store_partition.partition)]
            progress = store_partition.progress
            lag, staleness = progress.lag(now, float("inf")), progress.staleness(now)
            families["position"].add_metric(at, progress.position)
            families["answerable"].add_metric(at, float(progress.answerable))
            families["size_bytes"].add_metric(at, store_partition.store.size())
            if lag is not None:
                families["lag"].add_metric(at, lag)
            if staleness is not None:
                families["staleness_seconds"].add_metric(at, staleness)
            counters["applied_records"].add_metric(at, store_partition.applied_records)
            counters["dead_letters"].add_metric(at, store_partition.metadata.dead_letters)
            counters["mis_partitioned_records"].add_metric(
                at, store_partition.metadata.mispartitioned
            )
        yield from families.values()
        yield from counters.values()


class Metrics:
    """The registry of one instance."""

    def __init__(self, context: InstanceContext, topology: Callable[[], Mapping[str, Any]]) -> None:
        """`topology()`: the document of /admin/topology.json."""
        self._registry = CollectorRegistry()
        self._registry.register(_Instance(context, topology))
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self._registry)
