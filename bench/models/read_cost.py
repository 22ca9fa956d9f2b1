"""The cost of a read by proxy: a formula fitted to a run.

    CPU = fixed + request / batch + keys · log10(keys / 100,000)      µs

`batch` is the average number of reads that nginx sends to a backend in one request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from statistics import median
from typing import Any

import numpy as np

KEYS = 100_000


@dataclass(frozen=True, slots=True)
class Point:
    """A measured cost (µs of all servers per read), and the values that it depends on."""

    batch: float
    keys: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class Model:
    """The coefficients (µs), and the largest error of a point, relative to its measured cost."""

    fixed: float
    request: float
    keys: float
    max_error: float = 0.0

    def cpu_us(self, batch: float, keys: float = KEYS) -> float:
        return self.fixed + self.request / batch + self.keys * log10(keys / KEYS)


def fit(points: Sequence[Point]) -> Model:
    """Minimizes the squares of the relative errors; no coefficient is below 0.

    ValueError if the points do not determine the coefficients.
    """
    measured = np.array([point.cpu_us for point in points])
    terms = np.array([[1.0, 1 / point.batch, log10(point.keys / KEYS)] for point in points])
    if not points or np.linalg.matrix_rank(terms) < 3:
        raise ValueError("too few different points: measure reads and factors in one run")
    # columns in use: one whose coefficient is negative, because of noise, is dropped
    kept = [0, 1, 2]
    while True:
        scaled = terms[:, kept] / measured[:, None]
        found, *_ = np.linalg.lstsq(scaled, np.ones(len(points)), rcond=None)
        if found.min() >= 0:
            break
        del kept[int(found.argmin())]
    max_error = float(np.abs(scaled @ found - 1).max())
    costs = dict(zip(kept, map(float, found), strict=True))
    return Model(costs.get(0, 0.0), costs.get(1, 0.0), costs.get(2, 0.0), max_error)


def points_of(document: Mapping[str, Any]) -> list[Point]:
    """The points of results.json: reads by proxy with different readers, backends and keys."""
    records = document["options"]["records"]
    return [
        Point(row["more"]["batch"], row["more"].get("keys", records), row["cpu_us"])
        for row in _fitted(document)
    ]


def batch_share(document: Mapping[str, Any]) -> float:
    """The share of readers whose reads are in one batch, among the readers of one nginx worker and
    one backend: the median of the rows with several such readers."""
    workers = nginx_workers(document)
    parts = []
    for row in _fitted(document):
        queue = row["connections"] / (workers * row["more"].get("backends", 1))
        if queue > 1:
            parts.append(row["more"]["batch"] / queue)
    return float(median(parts))


def nginx_workers(document: Mapping[str, Any]) -> int:
    """How many workers nginx had; in older runs one for each core."""
    machine = document["machine"]
    return int(machine.get("nginx_workers", machine["cores"]))


def _fitted(document: Mapping[str, Any]) -> list[Any]:
    return [
        row
        for row in document["rows"]
        if row["name"] in ("proxy", "proxy-base")
        or row["name"].startswith(("proxy-backends-", "proxy-keys-"))
    ]


def describe(document: Mapping[str, Any]) -> str:
    """The formula that fits a run; ValueError if rows are missing."""
    found, share = fit(points_of(document)), batch_share(document)
    return (
        f"CPU = {found.fixed:.1f} + {found.request:.1f} / batch + {found.keys:.1f} · "
        f"log10(keys / {KEYS:,}) µs, fitted to the rows proxy, proxy-base, proxy-backends-… and "
        f"proxy-keys-…. The largest error of a row is {found.max_error:.0%}. batch is the number "
        f"of reads in a request to a backend: {share:.0%} of connections / (nginx workers × "
        f"backends), and at least 1."
    )
