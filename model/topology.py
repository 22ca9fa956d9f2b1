"""The topology: which members have which partitions, and in which role.

The group's leader computes it, and all members and proxies read it. Between members, it is
compressed JSON in the user data of the group's assignment. Over HTTP, it is the document of
/processors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from model.kafka.user_data import MALFORMED, pack, unpack

# The version of the user data. Unknown fields are ignored. A new version is a breaking change: a
# leader assigns no partitions to members of another version.
VERSION = 2
NO_MEMBER = -1

# The roles of a member for a partition. In each role it has a store and applies the log.
ACTIVE: Final = "active"
STANDBY: Final = "standby"
WARMING: Final = "warming"
ROLES: Final = (ACTIVE, STANDBY, WARMING)

# how an instance is reached
HTTP: Final = "http"
HTTPS: Final = "https"


class Epoch(NamedTuple):
    """The version of a topology, ordered: the leader's clock (ms), then the group's generation.

    In a topology that instances publish, the number of changes of views' versions and of the
    service's current deployment is added to the generation: see `Topology.at_revision`.
    """

    ms: int
    generation: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.generation}"


NO_EPOCH = Epoch(0, 0)


class TopologyError(ValueError):
    """A topology or a member's user data is malformed, or cannot be sent."""


@dataclass(frozen=True)
class Member:
    """An instance in the topology: its id and address."""

    id: str
    host: str
    port: int
    rack: str = ""  # standbys are placed in other racks than the active, if possible
    scheme: str = HTTP  # HTTP or HTTPS; instances of older versions do not send it

    @property
    def origin(self) -> str:
        """The base URL."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def address(self) -> str:
        """The host as sockets take it: an IPv6 address has no brackets."""
        return self.host.strip("[]")

    def fields(self) -> list[str | int]:
        """The fields of a member, as a list in the user data."""
        return [self.id, self.host, self.port, self.rack, self.scheme]

    @staticmethod
    def from_fields(fields: Sequence[Any]) -> Member:
        """The inverse of `fields`; newer members may send more of them. Raises TopologyError."""
        member = Member(*fields[:5])
        texts = (member.id, member.host, member.rack, member.scheme)
        if not all(type(text) is str for text in texts) or type(member.port) is not int:
            raise TopologyError(f"malformed member: {fields!r}")
        return member


@dataclass(frozen=True)
class PlacedView:
    """A view in the topology: its public description and the placement of its partitions.

    `active[partition]` is an index into the topology's members, or NO_MEMBER. `standbys[partition]`
    has such indexes, in the order in which the members are asked. `warming` has a (partition,
    index) for each member that builds a store to become active for the partition. Such a member
    gets no requests until it is active.
    """

    description: Mapping[str, Any]
    hash: str
    active: tuple[int, ...]
    mispartitioned: bool = False
    # the topic's numbers of partitions when the stores were created, ascending; empty: no store
    partition_counts: tuple[int, ...] = ()
    standbys: tuple[tuple[int, ...], ...] = ()  # empty: no standbys
    warming: tuple[tuple[int, int], ...] = ()
    moved: tuple[int, ...] = ()  # partitions whose active changes with this topology
    topic_hash: int = 0  # `hash_of_topic` of the topic that had `partition_counts`
    differs: bool = False  # whether a member declares it differently, or not at all

    @property
    def partitions(self) -> int:
        return len(self.active)

    @property
    def has_moved_keys(self) -> bool:
        """Whether partitions were added since one of the stores was created."""
        return self.partition_counts not in ((), (len(self.active),))

    @property
    def several_partitions(self) -> dict[str, Any]:
        """The fields in /processors about keys that may be in several partitions, which are read
        together: all keys, or the keys whose partition differs between these counts. Empty if there
        are no such keys."""
        if self.mispartitioned:
            return {"mispartitioned": True}
        if self.has_moved_keys:
            return {"partition_counts": sorted({*self.partition_counts, self.partitions})}
        return {}

    def holders(self, partition: int) -> tuple[int, ...]:
        """The indexes of the members that answer for a partition, the active first."""
        index = self.active[partition]
        active = () if index == NO_MEMBER else (index,)
        return active + (self.standbys[partition] if self.standbys else ())


def partition_counts_in(document: Mapping[str, Any]) -> tuple[int, ...]:
    """The partition counts of a view in a document. An older version writes only the smallest one,
    as `built_partitions`; 0: there is none. Raises KeyError, ValueError or TypeError."""
    smallest = int(document["built_partitions"])
    return tuple(map(int, document.get("partition_counts", [smallest] if smallest else [])))


DOCUMENT_VERSION = 1  # the version of /processors; fields may be added without a new version
_FIELDS = {
    ACTIVE: "topicPartitions",
    STANDBY: "standbyPartitions",
    WARMING: "warmingPartitions",
}
PARTITION_FIELDS: Final = tuple(_FIELDS.values())
"""The fields of a processor in /processors that have its partitions by view."""


@dataclass(frozen=True)
class Topology:
    """The placement of all partitions, at an epoch."""

    epoch: Epoch = NO_EPOCH
    members: tuple[Member, ...] = ()
    views: Mapping[str, PlacedView] = field(default_factory=dict)
    # contested path -> the name of its view, without a version (`group_views`)
    paths: Mapping[str, str] = field(default_factory=dict)

    def at_revision(self, revision: int) -> Topology:
        """The topology after this number of changes. Each change makes the epoch newer, so that
        proxies and clients read the topology again."""
        if self.epoch == NO_EPOCH or not revision:
            return self
        ms, generation = self.epoch
        return replace(self, epoch=Epoch(ms, generation + revision))

    def active_of(self, view: str, partition: int) -> Member | None:
        """The active of a partition; None if there is none."""
        placed = self.views.get(view)
        if placed is None or not 0 <= partition < placed.partitions:
            return None
        index = placed.active[partition]
        return None if index == NO_MEMBER else self.members[index]

    def holders_of(self, view: str, partition: int) -> list[Member]:
        """The members that answer for a partition, the active first; empty if there are none."""
        placed = self.views.get(view)
        if placed is None or not 0 <= partition < placed.partitions:
            return []
        return [self.members[index] for index in placed.holders(partition)]

    def is_shared(self, member: Member, view: str, partition: int) -> bool:
        """Whether other members answer for a partition, or did in the previous topology."""
        has_others = any(holder != member for holder in self.holders_of(view, partition))
        return has_others or partition in self.views[view].moved

    def is_taken_over(self, before: Topology, view: str, partition: int) -> bool:
        """Whether the partition had another active in the topology `before`."""
        active = before.active_of(view, partition)
        return active is not None and active != self.active_of(view, partition)

    def neighbours(self, member_id: str) -> list[Member]:
        """The other members that have a partition in common with this one."""
        neighbours: set[int] = set()
        for placed in self.views.values():
            warming = dict(placed.warming)
            for partition in range(placed.partitions):
                indexes = {*placed.holders(partition), warming.get(partition, NO_MEMBER)}
                if any(i != NO_MEMBER and self.members[i].id == member_id for i in indexes):
                    neighbours |= indexes
        return [m for i, m in enumerate(self.members) if i in neighbours and m.id != member_id]

    def partitions_of(
        self, member: Member, hashes: Mapping[str, str]
    ) -> dict[tuple[str, int], str]:
        """The role of each partition that a member has, for the views with these definitions.
        `hashes`: name of a view -> hash of its definition. Empty if another member has its id."""
        if member not in self.members:
            return {}
        return {
            (name, partition): role
            for name, hash_ in hashes.items()
            if (placed := self.views.get(name)) and placed.hash == hash_
            for role, partitions in self.roles_of(member.id, name).items()
            for partition in partitions
        }

    def roles_of(self, member_id: str, view: str) -> dict[str, list[int]]:
        """Role -> partitions of `view` that the member has in this role."""
        roles: dict[str, list[int]] = {role: [] for role in ROLES}
        index = next((i for i, m in enumerate(self.members) if m.id == member_id), NO_MEMBER)
        placed = self.views.get(view)
        if placed is not None and index != NO_MEMBER:
            roles[ACTIVE] = [p for p, i in enumerate(placed.active) if i == index]
            roles[STANDBY] = [p for p, indexes in enumerate(placed.standbys) if index in indexes]
            roles[WARMING] = [p for p, i in placed.warming if i == index]
        return roles

    def encode(self) -> bytes:
        """The user data of an assignment. It does not contain the generation, which Kafka
        supplies."""
        return pack(
            {
                "v": VERSION,
                "ms": self.epoch.ms,
                "members": [m.fields() for m in self.members],
                "views": {
                    name: {
                        "description": view.description,
                        "hash": view.hash,
                        "active": view.active,
                        "standbys": view.standbys,
                        "warming": view.warming,
                        "mis_partitioned": view.mispartitioned,
                        # members of older versions read only the smallest count
                        "built_partitions": min(view.partition_counts, default=0),
                        "partition_counts": view.partition_counts,
                        "moved": view.moved,
                        "topic_hash": view.topic_hash,
                        "differs": view.differs,
                    }
                    for name, view in self.views.items()
                },
                "paths": self.paths,
            }
        )

    @staticmethod
    def decode(user_data: bytes, generation: int) -> Topology:
        """The inverse of `encode`. Raises TopologyError if `user_data` is malformed."""
        try:
            document = unpack(user_data)
            if document["v"] != VERSION:
                raise TopologyError(f"unsupported topology version {document['v']}, not {VERSION}")
            return Topology(
                epoch=Epoch(document["ms"], generation),
                members=tuple(map(Member.from_fields, document["members"])),
                views={
                    name: PlacedView(
                        placed["description"],
                        placed["hash"],
                        tuple(placed["active"]),
                        placed["mis_partitioned"],
                        partition_counts_in(placed),
                        tuple(tuple(indexes) for indexes in placed["standbys"]),
                        tuple((partition, index) for partition, index in placed["warming"]),
                        tuple(placed["moved"]),
                        # leaders of older versions do not send these
                        int(placed.get("topic_hash", 0)),
                        placed.get("differs") is True,
                    )
                    for name, placed in document["views"].items()
                },
                # leaders of older versions do not send it
                paths={str(path): str(base) for path, base in document.get("paths", {}).items()},
            )
        except MALFORMED as e:
            if isinstance(e, TopologyError):
                raise
            raise TopologyError(f"malformed topology: {e!r}") from e

    def processors(self, states: Mapping[str, str]) -> dict[str, Any]:
        """The document of /processors. `states`: id -> state; the default is "running"."""
        by_role = {
            role: {name: self._by_member(role, name) for name in self.views} for role in ROLES
        }
        return {
            "version": DOCUMENT_VERSION,
            "epoch": str(self.epoch),
            "views": {
                name: {
                    **view.description,
                    "partitions": view.partitions,
                    **view.several_partitions,
                    **({"differs": True} if view.differs else {}),
                }
                for name, view in self.views.items()
            },
            "processors": [
                {
                    "id": member.id,
                    "host": member.host,
                    "port": member.port,
                    "scheme": member.scheme,
                    **({"rack": member.rack} if member.rack else {}),
                    "state": states.get(member.id, "running"),
                    **{
                        field: {name: by_member[index] for name, by_member in by_role[role].items()}
                        for role, field in _FIELDS.items()
                    },
                }
                for index, member in enumerate(self.members)
            ],
        }

    def _by_member(self, role: str, view: str) -> list[list[int]]:
        """Each member's partitions of a view in a role. Takes one pass over all partitions."""
        placed = self.views[view]
        by_member: list[list[int]] = [[] for _ in self.members]
        pairs: Iterable[tuple[int, int]] = placed.warming
        if role == ACTIVE:
            pairs = ((p, index) for p, index in enumerate(placed.active) if index != NO_MEMBER)
        elif role == STANDBY:
            pairs = ((p, index) for p, indexes in enumerate(placed.standbys) for index in indexes)
        for partition, index in pairs:
            by_member[index].append(partition)
        return by_member


def below_replicas(view: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The placements of the partitions that fewer instances answer for than they should.

    `view`: of the document of /admin/topology.json, as far as it is used here:

        {"replicas": how many instances should answer,
         "placement": [{"partition", "answered_by": [id]}]}
    """
    replicas = view["replicas"]
    return [placed for placed in view["placement"] if len(placed["answered_by"]) < replicas]
