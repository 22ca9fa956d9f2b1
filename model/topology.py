"""Who holds what: the map that the group's leader makes, and every member and proxy reads.

On the wire between members it is compressed JSON of integers (the leader's assignment carries the
whole map in its user data); over HTTP it is the document of /processors.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from model.views import View

# Of user data. What a version does not know it passes over; another number is a breaking change,
# and such members get nothing from each other's leaders.
VERSION = 2
MAX_BYTES = 800_000  # a broker refuses a group's metadata above message.max.bytes (1 MB by default)
NOBODY = -1

# What a member is to a partition. All three hold it and keep up with the log.
ACTIVE: Final = "active"
STANDBY: Final = "standby"
WARMING: Final = "warming"
ROLES: Final = (ACTIVE, STANDBY, WARMING)


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
    rack: str = ""  # standbys are placed in others, where there are any


@dataclass(frozen=True)
class PlacedView:
    """A view in the map: its public description, partition count and who holds which.

    `active[partition]` is an index into the map's members, or NOBODY; so are `standbys[partition]`,
    in the order in which to ask them. `warming` are (partition, index) of those that read a
    partition in and will be active for it then; nobody asks them before.
    """

    description: Mapping[str, Any]
    hash: str
    active: tuple[int, ...]
    mis_partitioned: bool = False
    built_partitions: int = 0  # the smallest count under which a holder began; 0 where none is
    standbys: tuple[tuple[int, ...], ...] = ()  # empty: none at all
    warming: tuple[tuple[int, int], ...] = ()
    moved: tuple[int, ...] = ()  # partitions that another member has answered for until now

    @property
    def partitions(self) -> int:
        return len(self.active)

    def holders(self, partition: int) -> tuple[int, ...]:
        """Whom to ask for a partition, the active first."""
        index = self.active[partition]
        active = () if index == NOBODY else (index,)
        return active + (self.standbys[partition] if self.standbys else ())


DOCUMENT_VERSION = 1  # of /processors: fields may be added to it, not changed
_FIELDS = {
    ACTIVE: "topicPartitions",
    STANDBY: "standbyPartitions",
    WARMING: "warmingPartitions",
}


@dataclass(frozen=True)
class Topology:
    """Who holds what, at an epoch."""

    epoch: Epoch = NO_EPOCH
    members: tuple[Member, ...] = ()
    views: Mapping[str, PlacedView] = field(default_factory=dict)
    secret: str = ""  # known to the members of the group alone: they sign with it

    def active_of(self, view: str, partition: int) -> Member | None:
        placed = self.views.get(view)
        if placed is None or not 0 <= partition < placed.partitions:
            return None
        index = placed.active[partition]
        return None if index == NOBODY else self.members[index]

    def holders_of(self, view: str, partition: int) -> list[Member]:
        """Whom to ask for a partition, the active first; nobody where it is not placed."""
        placed = self.views.get(view)
        if placed is None or not 0 <= partition < placed.partitions:
            return []
        return [self.members[index] for index in placed.holders(partition)]

    def is_shared(self, member: Member, view: str, partition: int) -> bool:
        """Whether others answer for the member's partition, too, or have answered until now."""
        others = any(holder != member for holder in self.holders_of(view, partition))
        return others or partition in self.views[view].moved

    def is_taken_over(self, before: Topology, view: str, partition: int) -> bool:
        """Whether the partition's active is no longer the one that it had in the map before."""
        active = before.active_of(view, partition)
        return active is not None and active != self.active_of(view, partition)

    def neighbours(self, member_id: str) -> list[Member]:
        """The other members that have something of what this one has."""
        found: set[int] = set()
        for placed in self.views.values():
            warming = dict(placed.warming)
            for partition in range(placed.partitions):
                those = {*placed.holders(partition), warming.get(partition, NOBODY)}
                if any(i != NOBODY and self.members[i].id == member_id for i in those):
                    found |= those
        return [m for i, m in enumerate(self.members) if i in found and m.id != member_id]

    def roles_of(self, member_id: str, view: str) -> dict[str, list[int]]:
        """The partitions of `view` that the member has in each role."""
        roles: dict[str, list[int]] = {role: [] for role in ROLES}
        index = next((i for i, m in enumerate(self.members) if m.id == member_id), NOBODY)
        placed = self.views.get(view)
        if placed is not None and index != NOBODY:
            roles[ACTIVE] = [p for p, i in enumerate(placed.active) if i == index]
            roles[STANDBY] = [p for p, those in enumerate(placed.standbys) if index in those]
            roles[WARMING] = [p for p, i in placed.warming if i == index]
        return roles

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
                    "secret": self.secret,
                    "members": [[m.id, m.host, m.port, m.rack] for m in self.members],
                    "views": {
                        name: {
                            "description": view.description,
                            "hash": view.hash,
                            "active": view.active,
                            "standbys": view.standbys,
                            "warming": view.warming,
                            "mis_partitioned": view.mis_partitioned,
                            "built_partitions": view.built_partitions,
                            "moved": view.moved,
                        }
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
                members=tuple(Member(*member[:4]) for member in document["members"]),
                views={
                    name: PlacedView(
                        placed["description"],
                        placed["hash"],
                        tuple(placed["active"]),
                        placed["mis_partitioned"],
                        placed["built_partitions"],
                        tuple(tuple(those) for those in placed["standbys"]),
                        tuple((partition, index) for partition, index in placed["warming"]),
                        tuple(placed["moved"]),
                    )
                    for name, placed in document["views"].items()
                },
                secret=document["secret"],
            )
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as e:
            if isinstance(e, TopologyError):
                raise
            raise TopologyError(f"not a topology: {e!r}") from e

    def processors(self, states: Mapping[str, str]) -> dict[str, Any]:
        """The document of /processors; `states` of members by id, "running" where none is known."""
        held = {role: {name: self._by_member(role, name) for name in self.views} for role in ROLES}
        return {
            "version": DOCUMENT_VERSION,
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
                    **({"rack": member.rack} if member.rack else {}),
                    "state": states.get(member.id, "running"),
                    **{
                        field: {name: of_view[index] for name, of_view in held[role].items()}
                        for role, field in _FIELDS.items()
                    },
                }
                for index, member in enumerate(self.members)
            ],
        }

    def _by_member(self, role: str, view: str) -> list[list[int]]:
        """The partitions of a view that each member has in a role; one pass over all of them."""
        placed = self.views[view]
        of_each: list[list[int]] = [[] for _ in self.members]
        pairs: Iterable[tuple[int, int]] = placed.warming
        if role == ACTIVE:
            pairs = ((p, index) for p, index in enumerate(placed.active) if index != NOBODY)
        elif role == STANDBY:
            pairs = ((p, index) for p, those in enumerate(placed.standbys) for index in those)
        for partition, index in pairs:
            of_each[index].append(partition)
        return of_each


@dataclass(frozen=True)
class MemberMetadata:
    """A member as it presents itself when it joins the group: the user data of its subscription."""

    member: Member
    views: Mapping[str, tuple[str, Mapping[str, Any]]]  # name -> (hash, description)
    positions: Mapping[str, Mapping[int, int]]  # view -> partition -> position of what it has
    active: Mapping[str, tuple[int, ...]]  # view -> partitions for which it answers
    epoch: Epoch  # the highest it has seen
    started_at: int  # wall clock, ms: the later of two members with one id is the living one
    mis_partitioned: tuple[str, ...] = ()  # views in which it saw such records
    doubtful: tuple[str, ...] = ()  # views of which its map says that somebody did
    built: Mapping[str, int] = field(default_factory=dict)  # view -> count under which it began
    ready: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # which can answer at once
    standby: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # as the map says
    secret: str = ""  # of the map it has

    @staticmethod
    def views_of(views: tuple[View, ...]) -> dict[str, tuple[str, Mapping[str, Any]]]:
        return {view.name: (view.hash, view.description()) for view in views}

    def encode(self) -> bytes:
        return zlib.compress(
            orjson.dumps(
                {
                    "v": VERSION,
                    "member": [
                        self.member.id,
                        self.member.host,
                        self.member.port,
                        self.member.rack,
                    ],
                    "views": self.views,
                    "positions": self.positions,
                    "active": self.active,
                    "epoch": list(self.epoch),
                    "started_at": self.started_at,
                    "mis_partitioned": self.mis_partitioned,
                    "doubtful": self.doubtful,
                    "built": self.built,
                    "ready": self.ready,
                    "standby": self.standby,
                    "secret": self.secret,
                },
                option=orjson.OPT_NON_STR_KEYS,
            )
        )

    @staticmethod
    def decode(user_data: bytes) -> MemberMetadata:
        """The inverse of `encode`; TopologyError if it was not made by it."""
        try:
            document = orjson.loads(zlib.decompress(user_data))
            if document["v"] != VERSION:
                raise TopologyError(f"version {document['v']} of user data is not known here")
            return MemberMetadata(
                member=Member(*document["member"][:4]),
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
                ready={view: tuple(of) for view, of in document["ready"].items()},
                standby={view: tuple(of) for view, of in document["standby"].items()},
                secret=document["secret"],
            )
        except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as e:
            if isinstance(e, TopologyError):
                raise
            raise TopologyError(f"not a member's user data: {e!r}") from e
