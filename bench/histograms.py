"""Durations of point reads, from the histograms of nginx or of a backend."""

from __future__ import annotations

import re

from backend.telemetry.buckets import BOUNDS, quantile
from bench import http_client
from local.errors import LocalError
from local.waiting import wait_until

_BUCKET = re.compile(r"^queryable_(?:proxy_)?request_duration_seconds_bucket(\{.*\}) (\d+)$", re.M)
_FLUSH_TIMEOUT = 5.0  # s; nginx adds up its workers' counts once per second


def parse(metrics: str) -> list[int]:
    """The count of each bucket of the route `key`, summed over all series; not cumulative."""
    totals = dict.fromkeys((*(f"{bound:g}" for bound in BOUNDS), "+Inf"), 0)
    for labels, count in _BUCKET.findall(metrics):
        le = re.search(r'\ble="([^"]+)"', labels)
        if 'route="key"' in labels and le is not None:
            totals[le[1]] += int(count)
    upper = list(totals.values())
    return [count - below for count, below in zip(upper, [0, *upper], strict=False)]


def read_counts(port: int, path: str) -> list[int]:
    """The current counts of the server at this port, whose metrics are at `path`."""
    answer = http_client.get(port, path)
    if answer is None or answer.status != 200:
        raise LocalError(f"port {port} does not return its metrics: {answer}")
    return parse(answer.body.decode())


def increments(port: int, path: str, before: list[int], requests: int) -> list[int]:
    """Waits until the counts since `before` include at least `requests` requests, and returns them.
    wrk does not count requests that it has not waited for."""

    def counted() -> list[int]:
        after = read_counts(port, path)
        found = [new - old for new, old in zip(after, before, strict=True)]
        return found if sum(found) >= requests else []

    return wait_until(counted, _FLUSH_TIMEOUT, f"{requests:,} requests in {path} of port {port}")


def quantile_ms(counts: list[int], share: float) -> float:
    """The quantile (ms) as Prometheus computes it. `counts` must not be empty."""
    found = quantile(counts, share)
    assert found is not None
    return found * 1e3
