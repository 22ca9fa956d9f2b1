"""What a read by proxy costs, as a formula fitted to a run, and what it says of many machines.

    CPU = fixed + request / batch + keys · log10(keys / 100,000)      µs

`batch` is how many reads nginx sends to a backend in one request, as it has counted them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from statistics import median
from typing import Any

import numpy as np

KEYS = 100_000
MACHINES = 100
BATCH = 8


@dataclass(frozen=True, slots=True)
class Point:
    """A measured cost (µs of all servers a read), and what it depends on."""

    batch: float
    keys: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class Model:
    """The coefficients (µs), and the greatest error at a point, relative to what was measured."""

    fixed: float
    request: float
    keys: float
    worst: float = 0.0

    def cpu_us(self, batch: float, keys: float = KEYS) -> float:
        return self.fixed + self.request / batch + self.keys * log10(keys / KEYS)


def fit(points: Sequence[Point]) -> Model:
    """Least squares of the relative errors, no coefficient below 0.

    ValueError where the points do not tell the coefficients apart.
    """
    measured = np.array([point.cpu_us for point in points])
    terms = np.array([[1.0, 1 / point.batch, log10(point.keys / KEYS)] for point in points])
    if not points or np.linalg.matrix_rank(terms) < 3:
        raise ValueError("too few different points: measure reads and factors in one run")
    # the columns that count: noise may say that something costs less than nothing
    kept = [0, 1, 2]
    while True:
        scaled = terms[:, kept] / measured[:, None]
        found, *_ = np.linalg.lstsq(scaled, np.ones(len(points)), rcond=None)
        if found.min() >= 0:
            break
        del kept[int(found.argmin())]
    worst = float(np.abs(scaled @ found - 1).max())
    costs = dict(zip(kept, map(float, found), strict=True))
    return Model(costs.get(0, 0.0), costs.get(1, 0.0), costs.get(2, 0.0), worst)


def points_of(document: Mapping[str, Any]) -> list[Point]:
    """From results.json: reads by proxy with more and fewer readers, backends and keys."""
    records = document["options"]["records"]
    return [
        Point(row["more"]["batch"], row["more"].get("keys", records), row["cpu_us"])
        for row in _fitted(document)
    ]


def shared(document: Mapping[str, Any]) -> float:
    """Which part of the readers for each pair of an nginx worker and a backend have their reads in
    one batch: the median of the rows where there are several."""
    workers = document["machine"]["cores"]
    parts = []
    for row in _fitted(document):
        queue = row["connections"] / (workers * row["more"].get("backends", 1))
        if queue > 1:
            parts.append(row["more"]["batch"] / queue)
    return float(median(parts))


def _fitted(document: Mapping[str, Any]) -> list[Any]:
    return [
        row
        for row in document["rows"]
        if row["name"] in ("proxy", "proxy-base")
        or row["name"].startswith(("proxy-backends-", "proxy-keys-"))
    ]


def describe(document: Mapping[str, Any]) -> str:
    """The formula that fits a run, and what follows; ValueError if the run cannot tell."""
    found = fit(points_of(document))
    cores, keys = document["machine"]["cores"], document["options"]["records"]
    part = shared(document)
    return (
        f"CPU = {found.fixed:.1f} + {found.request:.1f} / batch + {found.keys:.1f} · "
        f"log10(keys / {KEYS:,}) µs, fitted to the rows proxy, proxy-base, proxy-backends-… and "
        f"proxy-keys-…. The largest error of a row is {found.worst:.0%}. batch is how many reads "
        f"nginx sent at a time: {part:.0%} of connections / (nginx workers × backends), and at "
        f"least 1.\n{of_many_machines(found, part, cores, keys)}"
    )


def of_many_machines(model: Model, part: float, cores: int, keys: float) -> str:
    """What the formula says of `MACHINES` such machines, an nginx worker and a backend a core."""
    backends = MACHINES * cores
    alone, together = model.cpu_us(1, keys), model.cpu_us(BATCH, keys)
    everywhere, here = cores * backends / part, cores * cores / part
    return (
        f"Of {MACHINES} such machines, each with an nginx worker and a backend per core "
        f"({backends} backends, {keys:,.0f} keys on each): where every nginx asks every backend, "
        f"reads travel together only from {everywhere:,.0f} connections a machine on; with fewer a "
        f"read costs {alone:.0f} µs, so {_millions(cores, alone)} reads/s in all. With "
        f"{BATCH * everywhere:,.0f} connections a machine, or {BATCH * here:,.0f} where clients go "
        f"to the nginx of the machine that has the key, {BATCH} travel together and a read costs "
        f"{together:.0f} µs: {_millions(cores, together)} reads/s. The network between machines "
        f"costs more than the loopback device, and is not in it."
    )


def _millions(cores: int, cpu_us: float) -> str:
    return f"{MACHINES * cores / cpu_us:.1f} million"
