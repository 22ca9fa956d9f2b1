"""Who holds what: the map that the group's leader makes, and every member and proxy reads.

On the wire between members it is compressed JSON of integers (the leader's assignment carries the
whole map in its user data); over HTTP it is the document of /processors.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from backend.core.views import View

VERSION = 1
MAX_BYTES = 800_000  # a broker refuses a group's metadata above message.max.bytes (1 MB by default)
NOBODY = -1


class Epoch(NamedTuple):
    """The version of a topology, ordered: the leader's clock (ms), then the group's generation."""

    ms: int
    generation: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.generation}"


NO_EPOCH = Epoch(0, 0)


class TopologyError(ValueError):
    """A map or a member's user data that cannot be read, or is too large to be sent."""


@dataclass(frozen=True)
class Member:
    """An instance as the map knows it: where it answers."""

    id: str
    host: str
    port: int


@dataclass(frozen=True)
class PlacedView:
    """A view in the map: its public description, partition count and who is active for which.

    `active[partition]` is an index into the map's members, or NOBODY.
    """

    description: Mapping[str, Any]
    hash: str
    active: tuple[int, ...]
    mis_partitioned: bool = False
    built_partitions: int = 0  # the smallest count under which a holder began; 0 where none is
    moved: tuple[int, ...] = ()  # partitions that another member has answered for until now

    @property
    def partitions(self) -> int:
        return len(self.active)


@dataclass(frozen=True)
class Topology:
    """Who holds what, at an epoch."""

    epoch: Epoch = NO_EPOCH
    members: tuple[Member, ...] = ()
    views: Mapping[str, PlacedView] = field(default_factory=dict)

    def active_of(self, view: str, partition: int) -> Member | None:
        placed = self.views.get(view)
        if placed is None or not 0 <= partition < placed.partitions:
            return None
        index = placed.active[partition]
        return None if index == NOBODY else self.members[index]

    def partitions_of(self, member_id: str, view: str) -> list[int]:
        """The partitions of `view` for which the member is active."""
        placed = self.views.get(view)
        if placed is None:
            return []
        return [
            partition
            for partition, index in enumerate(placed.active)
            if index != NOBODY and self.members[index].id == member_id
        ]

    def encode(self, copies: int = 1) -> bytes:
        """The map as user data of an assignment, without the generation, which Kafka tells.

        TopologyError if `copies` of it are more than a group can carry: the coordinator keeps each
        member's assignment in one record.
        """
        packed = zlib.compress(
            orjson.dumps(
                {
                    "v": VERSION,
                    "ms": self.epoch.ms,
                    "members": [[m.id, m.host, m.port] for m in self.members],
                    "views": {
                        name: [
                            view.description,
                            view.hash,
                            view.active,
                            view.mis_partitioned,
                            view.built_partitions,
                            view.moved,
                        ]
                        for name, view in self.views.items()
                    },
                },
            )
        )
        if len(packed) * copies > MAX_BYTES:
            raise TopologyError(
                f"the topology of {sum(v.partitions for v in self.views.values())} partitions on "
                f"{len(self.members)} instances takes {len(packed)} bytes, {copies} times, more "
                f"than the {MAX_BYTES} that a group can carry: split the deployment by application "
                f"id"
            )
        return packed

    @staticmethod
    def decode(user_data: bytes, generation: int) -> Topology:
        """The inverse of `encode`; TopologyError if it was not made by it."""
        try:
            document = orjson.loads(zlib.decompress(user_data))
            if document["v"] != VERSION:
                raise TopologyError(f"version {document['v']} of the topology is not known here")
            return Topology(
                epoch=Epoch(document["ms"], generation),
                members=tuple(Member(*member) for member in document["members"]),
                views={
                    name: PlacedView(d, hash_, tuple(active), misplaced, built, tuple(moved))
                    for name, (d, hash_, active, misplaced, built, moved) in document[
                        "views"
                    ].items()
                },
            )
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as e:
            if isinstance(e, TopologyError):
                raise
            raise TopologyError(f"not a topology: {e!r}") from e

    def processors(self, states: Mapping[str, str]) -> dict[str, Any]:
        """The document of /processors; `states` of members by id, "running" where none is known."""
        return {
            "epoch": str(self.epoch),
            "views": {
                name: {**view.description, "partitions": view.partitions}
                for name, view in self.views.items()
            },
            "processors": [
                {
                    "id": member.id,
                    "host": member.host,
                    "port": member.port,
                    "state": states.get(member.id, "running"),
                    "topicPartitions": {
                        name: self.partitions_of(member.id, name) for name in self.views
                    },
                    "standbyPartitions": {name: [] for name in self.views},
                }
                for member in self.members
            ],
        }


@dataclass(frozen=True)
class Candidate:
    """A member as it presents itself when it joins the group: the user data of its subscription."""

    member: Member
    views: Mapping[str, tuple[str, Mapping[str, Any]]]  # name -> (hash, description)
    positions: Mapping[str, Mapping[int, int]]  # view -> partition -> position of what it holds
    active: Mapping[str, tuple[int, ...]]  # view -> partitions for which it answers
    epoch: Epoch  # the highest it has seen
    started_at: int  # wall clock, ms: the later of two members with one id is the living one
    mis_partitioned: tuple[str, ...] = ()  # views in which it saw such records
    doubtful: tuple[str, ...] = ()  # views of which its map says that somebody did
    built: Mapping[str, int] = field(default_factory=dict)  # view -> count under which it began

    @staticmethod
    def views_of(views: tuple[View, ...]) -> dict[str, tuple[str, Mapping[str, Any]]]:
        return {view.name: (view.hash, view.description()) for view in views}

    def encode(self) -> bytes:
        return zlib.compress(
            orjson.dumps(
                {
                    "v": VERSION,
                    "member": [self.member.id, self.member.host, self.member.port],
                    "views": self.views,
                    "positions": self.positions,
                    "active": self.active,
                    "epoch": list(self.epoch),
                    "started_at": self.started_at,
                    "mis_partitioned": self.mis_partitioned,
                    "doubtful": self.doubtful,
                    "built": self.built,
                },
                option=orjson.OPT_NON_STR_KEYS,
            )
        )

    @staticmethod
    def decode(user_data: bytes) -> Candidate:
        """The inverse of `encode`; TopologyError if it was not made by it."""
        try:
            document = orjson.loads(zlib.decompress(user_data))
            if document["v"] != VERSION:
                raise TopologyError(f"version {document['v']} of user data is not known here")
            return Candidate(
                member=Member(*document["member"]),
                views={name: (h, d) for name, (h, d) in document["views"].items()},
                positions={
                    view: {int(partition): position for partition, position in held.items()}
                    for view, held in document["positions"].items()
                },
                active={view: tuple(held) for view, held in document["active"].items()},
                epoch=Epoch(*document["epoch"]),
                started_at=document["started_at"],
                mis_partitioned=tuple(document["mis_partitioned"]),
                doubtful=tuple(document["doubtful"]),
                built=document["built"],
            )
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as e:
            if isinstance(e, TopologyError):
                raise
            raise TopologyError(f"not a member's user data: {e!r}") from e
