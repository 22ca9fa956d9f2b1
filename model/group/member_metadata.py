"""What a member of the group sends to the group's leader: compressed JSON in the user data of the
member's subscription."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from model.kafka.user_data import MALFORMED, pack, unpack
from model.topology import VERSION, Epoch, Member, TopologyError
from model.views import View


@dataclass(frozen=True)
class MemberMetadata:
    """The metadata that a member sends to the leader when it joins: the user data of its
    subscription."""

    member: Member
    views: Mapping[str, tuple[str, Mapping[str, Any]]]  # name -> (hash, description)
    positions: Mapping[str, Mapping[int, int]]  # view -> partition -> position of its store
    active: Mapping[str, tuple[int, ...]]  # view -> partitions for which it is active
    epoch: Epoch  # the highest epoch that it has seen
    started_at_ms: int  # wall clock
    mispartitioned: tuple[str, ...] = ()  # views with mispartitioned records in its stores
    topology_mispartitioned: tuple[str, ...] = ()  # views that its topology marks as mispartitioned
    partition_counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by view
    # view -> `hash_of_topic` of the topic that had these counts; 0: unknown
    topic_hashes: Mapping[str, int] = field(default_factory=dict)
    ready: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # answerable partitions
    standby: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # in its topology
    drained: bool = False  # whether other members should have its partitions
    reads_references: bool = True  # whether the leader may send it a TopologyReference
    network: str = ""  # in which its address is; "": unknown
    referenced_ms: int = 0  # the highest epoch_ms of the references that it has received

    @staticmethod
    def views_of(views: tuple[View, ...]) -> dict[str, tuple[str, Mapping[str, Any]]]:
        return {view.name: (view.hash, view.description()) for view in views}

    def encode(self) -> bytes:
        counts = self.partition_counts
        return pack(
            {
                "v": VERSION,
                "member": self.member.fields(),
                "views": self.views,
                "positions": self.positions,
                "active": self.active,
                "epoch": list(self.epoch),
                "started_at": self.started_at_ms,
                "mis_partitioned": self.mispartitioned,
                "doubtful": self.topology_mispartitioned,
                # leaders of older versions read only the smallest count
                "built": {view: min(counts_of_view) for view, counts_of_view in counts.items()},
                "partition_counts": counts,
                "topic_hashes": self.topic_hashes,
                "ready": self.ready,
                "standby": self.standby,
                "drained": self.drained,
                "reads_references": self.reads_references,
                "network": self.network,
                "referenced_ms": self.referenced_ms,
            }
        )

    @staticmethod
    def decode(user_data: bytes) -> MemberMetadata:
        """The inverse of `encode`. Raises TopologyError if `user_data` is malformed."""
        try:
            document = unpack(user_data)
            if document["v"] != VERSION:
                raise TopologyError(f"unsupported user data version {document['v']}, not {VERSION}")
            return MemberMetadata(
                member=Member.from_fields(document["member"]),
                views={name: (h, d) for name, (h, d) in document["views"].items()},
                positions={
                    view: {int(partition): position for partition, position in partitions.items()}
                    for view, partitions in document["positions"].items()
                },
                active={view: tuple(partitions) for view, partitions in document["active"].items()},
                epoch=Epoch(*document["epoch"]),
                started_at_ms=document["started_at"],
                mispartitioned=tuple(document["mis_partitioned"]),
                topology_mispartitioned=tuple(document["doubtful"]),
                # members of older versions send only the smallest count
                partition_counts={
                    view: tuple(partitions)
                    for view, partitions in (
                        document.get("partition_counts")
                        or {view: [count] for view, count in document["built"].items()}
                    ).items()
                },
                topic_hashes={
                    view: int(hash_) for view, hash_ in document.get("topic_hashes", {}).items()
                },
                ready={view: tuple(partitions) for view, partitions in document["ready"].items()},
                standby={
                    view: tuple(partitions) for view, partitions in document["standby"].items()
                },
                # members of older versions do not send it
                drained=document.get("drained") is True,
                reads_references=document.get("reads_references") is True,
                network=str(document.get("network", "")),
                referenced_ms=int(document.get("referenced_ms", 0)),
            )
        except MALFORMED as e:
            if isinstance(e, TopologyError):
                raise
            raise TopologyError(f"malformed user data of a member: {e!r}") from e
