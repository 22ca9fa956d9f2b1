"""How many point reads our nginx sends to a backend in one request, from its own metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench import http_client
from local.errors import LocalError


@dataclass(frozen=True, slots=True)
class Batches:
    """The number of batches since nginx started, and the number of reads in them."""

    count: float
    reads: float


def parse(metrics: str) -> Batches:
    """Parses the text of /proxy/metrics; ValueError if it has no such metric."""
    found = dict(re.findall(r"^queryable_proxy_batch_reads_(count|sum) (\S+)$", metrics, re.M))
    if len(found) != 2:
        raise ValueError("no queryable_proxy_batch_reads")
    return Batches(float(found["count"]), float(found["sum"]))


def read_counts(port: int, token: str = "") -> Batches:
    """The current counts of the nginx at this port. `token`: a token with the scope `metrics`."""
    answer = http_client.get(port, "/proxy/metrics", token)
    if answer is None or answer.status != 200:
        raise LocalError(f"nginx at port {port} does not return its metrics: {answer}")
    return parse(answer.body.decode())


def reads_per_request(reads: int, before: Batches, after: Batches) -> float:
    """The average for `reads` between two counts. A read that was not coalesced is one request."""
    batches, batched = after.count - before.count, after.reads - before.reads
    return reads / (batches + max(0.0, reads - batched))
