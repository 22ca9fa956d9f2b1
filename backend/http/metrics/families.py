"""Shorthands for metric families of Prometheus's client library. All names begin with
"queryable_"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Family = CounterMetricFamily | GaugeMetricFamily


def counter(name: str, text: str, labels: Sequence[str] = ()) -> CounterMetricFamily:
    """`name`: without "_total"."""
    return CounterMetricFamily(f"queryable_{name}", text, labels=labels)


def gauge(name: str, text: str, labels: Sequence[str] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"queryable_{name}", text, labels=labels)


def single(family: Family, value: float) -> Metric:
    """The family with one sample without labels."""
    family.add_metric([], value)
    return family


def by_label(family: Family, values: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """The family with a sample for each list of label values."""
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family
