"""How many point reads travel in a request from our nginx to backends, from its own metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench import asking
from local.errors import LocalError


@dataclass(frozen=True, slots=True)
class Batches:
    """How many there were since nginx started, and the reads in them."""

    count: float
    reads: float


def parse(metrics: str) -> Batches:
    """From the text for Prometheus; ValueError if it is not there."""
    found = dict(re.findall(r"^queryable_proxy_batch_reads_(count|sum) (\S+)$", metrics, re.M))
    if len(found) != 2:
        raise ValueError("no queryable_proxy_batch_reads")
    return Batches(float(found["count"]), float(found["sum"]))


def seen(port: int) -> Batches:
    """Those of the nginx at this port by now."""
    answer = asking.get(port, "/proxy/metrics")
    if answer is None or answer.status != 200:
        raise LocalError(f"nginx at port {port} tells no metrics: {answer}")
    return parse(answer.body.decode())


def reads_a_request(reads: int, before: Batches, after: Batches) -> float:
    """Of so many reads between two looks; those that were in no batch had a request each."""
    batches, batched = after.count - before.count, after.reads - before.reads
    return reads / (batches + max(0.0, reads - batched))
