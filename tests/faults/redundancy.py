"""Checks that every partition has all its replicas, from the documents of the instances. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Documents = Mapping[str, Mapping[str, Any] | None]


def missing(
    view: str, partitions: int, replicas: int, processors: Documents, instances: Documents
) -> str:
    """Describes the first missing redundancy of the deployment; "" if it is complete.

    `processors`, `instances`: the documents of /processors and /instance of each live instance, by
    id; None if it did not answer. Each partition must be answerable at `replicas` instances (or all
    live ones, if fewer), one of them its active, and all topologies must be the same.
    """
    for id_, document in [*processors.items(), *instances.items()]:
        if document is None:
            return f"{id_} does not answer"
    maps = [document for document in processors.values() if document is not None]
    if len({document["epoch"] for document in maps}) > 1:
        return "the instances have different topologies"
    placed = {p["id"]: p for p in maps[0]["processors"]}
    if set(placed) != set(processors):
        return f"the topology has {sorted(placed)}, but {sorted(processors)} are live"
    if unsettled := [id_ for id_, p in placed.items() if p["state"] != "running"]:
        return f"{unsettled[0]} is {placed[unsettled[0]]['state']}"
    if warming := [id_ for id_, p in placed.items() if _of(p, "warming", view)]:
        return f"{warming[0]} is warming up"
    count = maps[0]["views"].get(view, {}).get("partitions", 0)
    if count != partitions:
        return f"the topology has {count} partitions of {partitions}"
    answerable = {
        id_: {
            p["partition"]
            for p in (document or {})["partitions"]
            if p["view"] == view and p["state"] == "answerable"
        }
        for id_, document in instances.items()
    }
    for partition in range(partitions):
        actives = [id_ for id_, p in placed.items() if partition in _of(p, "topic", view)]
        standbys = [id_ for id_, p in placed.items() if partition in _of(p, "standby", view)]
        if len(actives) != 1:
            return f"partition {partition} has {len(actives)} actives"
        if len(actives + standbys) < min(replicas, len(processors)):
            return f"partition {partition} has {len(standbys)} standbys"
        for id_ in actives + standbys:
            if partition not in answerable[id_]:
                return f"partition {partition} is not answerable at {id_}"
    return ""


def _of(processor: Mapping[str, Any], kind: str, view: str) -> list[int]:
    found: list[int] = processor[f"{kind}Partitions"].get(view, [])
    return found
