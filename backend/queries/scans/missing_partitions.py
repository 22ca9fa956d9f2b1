"""Why a query of several partitions has no answer: one of them is missing."""

from __future__ import annotations

from model.problems import Unavailable

_WHY = {
    "catching-up": "is catching up",
    "not-here": "is moving from one instance to another",
    "index-building": "is held by an instance that has not built the index yet",
    "other-fields": "is held by an instance whose views.toml declares other fields of the view",
    "nobody": "is held by no instance now",
    "not-active": "is no longer active on the instance that was asked",
    "older-version": "is held by an instance of another version, and the older one does not know a "
    "part of the request or of its answer. This is so during a rolling upgrade, and ends with it",
    "owner-unreachable": "is held by an instance that does not answer",
    "overloaded": "is held by an instance that runs too many scans",
    "store-damaged": "cannot be read",
    "repartitioned": "does not have the deletes of keys whose partition has changed, because its "
    "instance did not know that partitions were added, or does not know it yet. If this does not "
    "end within seconds, rebuild the partition",
}


def unavailable(view: str, missing: dict[int, str]) -> Unavailable:
    partition = min(missing)
    code = missing[partition]
    why = _WHY.get(code, "cannot be answered for")
    return Unavailable(code, f"Partition {partition} of view {view} {why}.", partition=partition)
