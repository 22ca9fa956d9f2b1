"""Whether every partition has all the holders that it shall have: pure, from what instances say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Documents = Mapping[str, Mapping[str, Any] | None]


def missing(
    view: str, partitions: int, holders: int, processors: Documents, instances: Documents
) -> str:
    """What keeps the deployment from being whole, in words; "" if nothing does.

    `processors`, `instances`: the documents of /processors and /instance of each instance that
    lives, by id; None where it gave none. Each of the partitions shall be held and answerable at
    `holders` instances (or all, if fewer live), one of them its active, and all maps be the same.
    """
    for id_, document in [*processors.items(), *instances.items()]:
        if document is None:
            return f"{id_} does not answer"
    maps = [document for document in processors.values() if document is not None]
    if len({document["epoch"] for document in maps}) > 1:
        return "the instances have different maps"
    placed = {p["id"]: p for p in maps[0]["processors"]}
    if set(placed) != set(processors):
        return f"the map has {sorted(placed)}, and {sorted(processors)} live"
    if unsettled := [id_ for id_, p in placed.items() if p["state"] != "running"]:
        return f"{unsettled[0]} is {placed[unsettled[0]]['state']}"
    if warming := [id_ for id_, p in placed.items() if _of(p, "warming", view)]:
        return f"{warming[0]} is warming up"
    count = maps[0]["views"].get(view, {}).get("partitions", 0)
    if count != partitions:
        return f"the map has {count} partitions of {partitions}"
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
        if len(actives + standbys) < min(holders, len(processors)):
            return f"partition {partition} has {len(standbys)} standbys"
        for id_ in actives + standbys:
            if partition not in answerable[id_]:
                return f"partition {partition} is not answerable at {id_}"
    return ""


def _of(processor: Mapping[str, Any], kind: str, view: str) -> list[int]:
    found: list[int] = processor[f"{kind}Partitions"].get(view, [])
    return found
