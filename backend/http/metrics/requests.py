"""Metrics of requests: reads, scans, requests to other instances, and durations."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from backend.http.metrics.families import by_label, counter, single
from backend.telemetry.buckets import BOUNDS
from backend.telemetry.latencies import Latencies
from backend.telemetry.telemetry import PLANS, Telemetry

DURATION = "queryable_request_duration_seconds"
DURATION_TEXT = "Duration of requests, until a streamed answer begins."

_OUTCOMES = ("found", "missed", "unavailable", "forwarded", "refused")
_LES = tuple(f'le="{bound:g}"}} ' for bound in BOUNDS)


def reads(telemetry: Telemetry) -> Iterator[Metric]:
    """Point reads by outcome, and requests above a quota."""
    yield by_label(
        counter("point_reads", "Point reads by outcome.", ["view", "outcome"]),
        (
            ([view, outcome], getattr(counts, outcome))
            for view, counts in telemetry.counts.items()
            for outcome in _OUTCOMES
        ),
    )
    yield by_label(
        counter("over_quota", "Requests above the quota of their view.", ["view"]),
        (([view], number) for view, number in telemetry.over_quota.items()),
    )


def scans(telemetry: Telemetry) -> Iterator[Metric]:
    """Queries of whole views."""
    asked = counter("scans", "Queries of whole views by clients.", ["view", "kind"])
    seconds = counter(
        "scan_seconds", "Duration of these queries, from start to end.", ["view", "kind"]
    )
    plans = counter(
        "scan_plans", "Answered queries, by the costliest plan that was used.", ["view", "plan"]
    )
    entries = counter(
        "scan_entries", "Entries read here for queries of all instances.", ["view", "plan"]
    )
    for view, counts in telemetry.scans.items():
        for kind, number in counts.requests.items():
            asked.add_metric([view, kind], number)
            seconds.add_metric([view, kind], counts.seconds[kind])
        for plan in PLANS:
            plans.add_metric([view, plan], counts.plans[plan])
            entries.add_metric([view, plan], counts.entries[plan])
    yield from (asked, seconds, plans, entries)


def peers(telemetry: Telemetry) -> Iterator[Metric]:
    """Requests to other instances."""
    yield by_label(
        counter(
            "peer_requests",
            "Requests to other instances, by route (forward: a request of a client) and outcome.",
            ["route", "outcome"],
        ),
        (([*labels], number) for labels, number in sorted(telemetry.peer_counts.requests.items())),
    )
    yield single(
        counter("retry_rounds", "Further rounds in which a query asked the replicas again."),
        telemetry.peer_counts.retry_rounds,
    )


def durations(latencies: Latencies) -> str:
    """The histograms in the text format. The client library would take ten times as long for this
    many lines, and would hold the interpreter lock all the time."""
    lines = [f"# HELP {DURATION} {DURATION_TEXT}\n# TYPE {DURATION} histogram\n"]
    for labels, counts, seconds in latencies.all():
        at = (
            f'{{route="{labels.route}",view="{labels.view}",role="{labels.role}"'
            f',status="{labels.status}"'
        )
        bucket, total = f"{DURATION}_bucket{at},", 0
        for le, count in zip(_LES, counts, strict=False):
            total += count
            lines.append(f"{bucket}{le}{total}\n")
        total += counts[-1]
        lines.append(f'{bucket}le="+Inf"}} {total}\n')
        lines.append(f"{DURATION}_sum{at}}} {seconds:.9g}\n{DURATION}_count{at}}} {total}\n")
    return "".join(lines)
