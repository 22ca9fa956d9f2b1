"""The document of `GET /processors`: its replicas, and the differences between two documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]
Replicas = tuple[str | None, tuple[str, ...]]
"""The active (None if there is none) and the standbys of a partition."""


def ranges(partitions: Iterable[int]) -> str:
    """Partitions as ranges: 0, 1, 2, 3, 7 becomes `0-3 7`."""
    result: list[list[int]] = []
    for partition in sorted(partitions):
        if result and partition == result[-1][-1] + 1:
            result[-1][1:] = [partition]
        else:
            result.append([partition])
    return " ".join("-".join(map(str, ends)) for ends in result)


def replicas_of(document: Document, view: str) -> dict[int, Replicas]:
    """The replicas of each partition, including those on dead instances."""
    active: dict[int, str] = {}
    standbys: dict[int, list[str]] = {}
    for processor in document["processors"]:
        for partition in processor["topicPartitions"].get(view, ()):
            active[partition] = processor["id"]
        for partition in processor["standbyPartitions"].get(view, ()):
            standbys.setdefault(partition, []).append(processor["id"])
    count = document["views"][view]["partitions"] or 0
    return {p: (active.get(p), tuple(standbys.get(p, ()))) for p in range(count)}


def differences(before: Document, after: Document) -> Iterator[str]:
    """One line per changed instance, then per change of partitions, grouped by view."""
    states = ({p["id"]: p["state"] for p in document["processors"]} for document in (before, after))
    yield from _instance_changes(*states)
    for view in after["views"]:
        if view not in before["views"]:
            yield f"view {view} was added"
            continue
        old, new = replicas_of(before, view), replicas_of(after, view)
        moves: dict[tuple[str, str], list[int]] = {}
        for partition in new:
            move = _replicas_text(old.get(partition)), _replicas_text(new[partition])
            if move[0] != move[1]:
                moves.setdefault(move, []).append(partition)
        for (was, now), partitions in moves.items():
            yield f"{view} {ranges(partitions)}: {was} ► {now}"
    for view in before["views"]:
        if view not in after["views"]:
            yield f"view {view} was removed"


def _instance_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for instance, state in after.items():
        if instance not in before:
            yield f"{instance} joined, {state}"
        elif before[instance] != state:
            yield f"{instance}: {before[instance]} ► {state}"
    for instance in before:
        if instance not in after:
            yield f"{instance} left"


def _replicas_text(replicas: Replicas | None) -> str:
    if replicas is None:
        return "none"
    active, standbys = replicas
    return (active or "no active") + (f" ({', '.join(standbys)})" if standbys else "")
