"""What a read by proxy costs, as a formula fitted to a run, and what it says of many machines.

    CPU = fixed + request / queue + keys · log10(keys / 100,000)      µs

`queue` is how many readers there are for each pair of an nginx worker and a backend, at least one:
what the reads that wait for one another there can share is one request. With the time of one
request as the unit of waiting that is the mean number of reads in a batch, in a closed loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

import numpy as np

KEYS = 100_000
MACHINES = 100
BATCH = 8


@dataclass(frozen=True, slots=True)
class Point:
    """A measured cost (µs of all servers a read), and what it depends on."""

    queue: float
    keys: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class Model:
    """The coefficients (µs), and the greatest error at a point, relative to what was measured."""

    fixed: float
    request: float
    keys: float
    worst: float = 0.0

    def cpu_us(self, queue: float, keys: float = KEYS) -> float:
        return self.fixed + self.request / queue + self.keys * log10(keys / KEYS)


def queue_of(connections: float, workers: int, backends: int) -> float:
    """Readers for each pair of a worker and a backend; one is always there, who is measured."""
    return max(1.0, connections / (workers * backends))


def fit(points: Sequence[Point]) -> Model:
    """Least squares of the relative errors, no coefficient below 0.

    ValueError where the points do not tell the coefficients apart.
    """
    measured = np.array([point.cpu_us for point in points])
    terms = np.array([[1.0, 1 / point.queue, log10(point.keys / KEYS)] for point in points])
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
    workers = document["machine"]["cores"]
    records = document["options"]["records"]
    points = []
    for row in document["rows"]:
        name, more = row["name"], row["more"]
        if name == "proxy":
            keys, backends = records, 1
        elif name == "proxy-base" or name.startswith(("proxy-backends-", "proxy-keys-")):
            keys, backends = more["keys"], more["backends"]
        else:
            continue
        points.append(Point(queue_of(row["connections"], workers, backends), keys, row["cpu_us"]))
    return points


def describe(document: Mapping[str, Any]) -> str:
    """The formula that fits a run, and what follows; ValueError if the run cannot tell."""
    found = fit(points_of(document))
    cores, keys = document["machine"]["cores"], document["options"]["records"]
    return (
        f"CPU = {found.fixed:.1f} + {found.request:.1f} / queue + {found.keys:.1f} · "
        f"log10(keys / {KEYS:,}) µs, fitted to the rows proxy, proxy-base, proxy-backends-… and "
        f"proxy-keys-…, none of which is more than {found.worst:.0%} off. queue is connections / "
        f"(nginx workers × backends), at least 1: the readers whose reads can share a request.\n"
        f"{of_many_machines(found, cores, keys)}"
    )


def of_many_machines(model: Model, cores: int, keys: float) -> str:
    """What the formula says of `MACHINES` such machines, an nginx and a backend a core on each."""
    backends = MACHINES * cores
    alone, shared = model.cpu_us(1, keys), model.cpu_us(BATCH, keys)
    return (
        f"Of {MACHINES} such machines, each with an nginx worker and a backend per core "
        f"({backends} backends, {keys:,.0f} keys on each): where every nginx asks every backend, "
        f"reads share requests only from {cores * backends:,} connections a machine on; with fewer "
        f"a read costs {alone:.0f} µs, so {_millions(cores, alone)} reads/s in all. With "
        f"{BATCH * cores * backends:,} connections a machine, or {BATCH * cores * cores} where "
        f"clients go to the nginx of the machine that has the key, it costs {shared:.0f} µs: "
        f"{_millions(cores, shared)} reads/s. The network between machines costs more than the "
        f"loopback device, and is not in it."
    )


def _millions(cores: int, cpu_us: float) -> str:
    return f"{MACHINES * cores / cpu_us:.1f} million"
