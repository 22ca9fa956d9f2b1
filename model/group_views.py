"""The names and paths of views, as a group's topology has them. Pure.

Instances may have different files for a moment, for example during a rolling restart. All of them
use the definitions of the topology, so a name or a path means the same on each.

A path is *contested* if views with different names declare it, or a path below it. This happens
while a path moves from one view to another. The group's leader decides which view the path leads
to. Leaders of older versions do not decide. Then the path is undecided until only one view declares
it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from model.topology import Topology


class Claim(NamedTuple):
    """A path that a view declares. `base`: the name of the view, without a version."""

    path: str
    base: str


@dataclass(frozen=True)
class GroupViews:
    """The views of a topology, by their stored names. `decided`: contested path -> the name,
    without a version, of the view that it leads to."""

    hashes: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)  # of the views that declare one
    decided: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def from_topology(topology: Topology) -> GroupViews:
        return GroupViews(
            {name: placed.hash for name, placed in topology.views.items()},
            {
                name: path
                for name, placed in topology.views.items()
                if isinstance(path := placed.description.get("path"), str)
            },
            dict(topology.paths),
        )


def overlap(first: str, second: str) -> bool:
    """Whether the paths are the same, or one lies below the other."""
    return f"{first}/".startswith(f"{second}/") or f"{second}/".startswith(f"{first}/")


def contested(claims: Iterable[Claim]) -> set[Claim]:
    """The claims whose paths overlap with a path of another view."""
    by_path: defaultdict[str, set[Claim]] = defaultdict(set)
    for claim in claims:
        by_path[claim.path].add(claim)
    overlapping = set()
    for claim in set().union(*by_path.values()):
        for above in accumulate(claim.path.split("/"), "{}/{}".format):
            for other_claim in by_path.get(above, ()):
                if other_claim.base != claim.base:
                    overlapping |= {claim, other_claim}
    return overlapping


def decide(claims: Mapping[Claim, int]) -> dict[str, str]:
    """The view that each contested path leads to, as in `GroupViews.decided`. `claims`: each claim
    -> the time at which the first instance that makes it was started.

    The earliest claim counts. So a path stays with its view until the last instance with the
    previous file has been restarted. It moves only once.
    """
    decided: dict[str, str] = {}
    for claim in sorted(
        contested(claims), key=lambda claim: (claims[claim], claim.base, claim.path)
    ):
        if all(
            base == claim.base or not overlap(path, claim.path) for path, base in decided.items()
        ):
            decided[claim.path] = claim.base
    return decided


def leading(claims: Iterable[Claim], decided: Mapping[str, str]) -> dict[str, str]:
    """The view that each path leads to. A path is missing if its view is undecided."""
    claims = set(claims)
    in_doubt = contested(claims)
    return {
        path: base
        for path, base in sorted(claims)
        if (path, base) not in in_doubt or decided.get(path) == base
    }
