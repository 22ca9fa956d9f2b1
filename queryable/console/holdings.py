"""What a document of `GET /processors` says, and how two of them differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]
Holders = tuple[str | None, tuple[str, ...]]
"""The active, None where nobody is, and the standbys."""


def ranges(partitions: Iterable[int]) -> str:
    """`0-3 7` of 0, 1, 2, 3, 7."""
    found: list[list[int]] = []
    for partition in sorted(partitions):
        if found and partition == found[-1][-1] + 1:
            found[-1][1:] = [partition]
        else:
            found.append([partition])
    return " ".join("-".join(map(str, ends)) for ends in found)


def holders_of(document: Document, view: str) -> dict[int, Holders]:
    """By partition; that an instance is dead is said with it, not here."""
    active: dict[int, str] = {}
    standbys: dict[int, list[str]] = {}
    for each in document["processors"]:
        for partition in each["topicPartitions"].get(view, ()):
            active[partition] = each["id"]
        for partition in each["standbyPartitions"].get(view, ()):
            standbys.setdefault(partition, []).append(each["id"])
    count = document["views"][view]["partitions"] or 0
    return {p: (active.get(p), tuple(standbys.get(p, ()))) for p in range(count)}


def differences(before: Document, after: Document) -> Iterator[str]:
    """A line each: instances, then partitions, those of a view that went the same way together."""
    states = ({p["id"]: p["state"] for p in each["processors"]} for each in (before, after))
    yield from _of_instances(*states)
    for view in after["views"]:
        if view not in before["views"]:
            yield f"view {view} is new"
            continue
        old, new = holders_of(before, view), holders_of(after, view)
        moves: dict[tuple[str, str], list[int]] = {}
        for partition in new:
            said = _said(old.get(partition)), _said(new[partition])
            if said[0] != said[1]:
                moves.setdefault(said, []).append(partition)
        for (was, now), partitions in moves.items():
            yield f"{view} {ranges(partitions)}: {was} ► {now}"
    for view in before["views"]:
        if view not in after["views"]:
            yield f"view {view} is gone"


def _of_instances(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for instance, state in after.items():
        if instance not in before:
            yield f"{instance} has come, {state}"
        elif before[instance] != state:
            yield f"{instance}: {before[instance]} ► {state}"
    for instance in before:
        if instance not in after:
            yield f"{instance} has gone"


def _said(holders: Holders | None) -> str:
    if holders is None:
        return "none"
    active, standbys = holders
    return (active or "nobody") + (f" ({', '.join(standbys)})" if standbys else "")
