"""The registry of one instance, rendered as Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from backend.http.metrics import deployment, requests, stores
from backend.instance.context import InstanceContext

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Instance(Collector):
    def __init__(self, context: InstanceContext, topology: Callable[[], Mapping[str, Any]]) -> None:
        self._context = context
        self._topology = topology

    def collect(self) -> Iterator[Metric]:
        context = self._context
        yield from requests.reads(context.telemetry)
        yield from requests.scans(context.telemetry)
        yield from requests.peers(context.telemetry)
        yield from stores.store_partitions(context)
        yield from stores.indexes(context)
        yield from stores.rocksdb(*context.rocksdb())
        yield from stores.disk(context)
        yield from deployment.pipelines(context)
        yield from deployment.pushes(context)
        yield from deployment.redundancy(self._topology())
        yield from deployment.instance(context)


class Metrics:
    """The metrics of one instance."""

    def __init__(self, context: InstanceContext, topology: Callable[[], Mapping[str, Any]]) -> None:
        """`topology()`: the document of /admin/topology.json."""
        self._context = context
        self._registry = CollectorRegistry()
        self._registry.register(_Instance(context, topology))
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """The text exposition format."""
        durations = requests.durations(self._context.telemetry.latencies)
        return generate_latest(self._registry) + durations.encode()
