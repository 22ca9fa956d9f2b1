"""A reference to a topology: what the leader sends instead of a topology that does not fit.

The group's coordinator stores the user data of all members in one record. Members get the topology
itself over HTTP, from the leader or from one another (`backend/cluster/topology_fetcher.py`). The
reference has the digest of the topology, so no other topology can be mistaken for it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from model.group import id_in_use
from model.group.id_in_use import IdInUse
from model.kafka.user_data import MALFORMED, pack, unpack
from model.topology import Member, Topology, TopologyError

# the version of the user data; members of older versions reject it
VERSION: Final = 3
MAX_BYTES: Final = 32 << 20
"""The maximum size of an encoded topology. 2,000 instances with 20,000 partitions take 132,000
bytes."""


def digest_of(encoded: bytes) -> str:
    """SHA-256 of an encoded topology, in lower case hex."""
    return hashlib.sha256(encoded).hexdigest()


@dataclass(frozen=True)
class TopologyReference:
    """The digest and size of an encoded topology, and the leader, which has it."""

    digest: str
    size: int  # bytes of the encoded topology
    instances: int  # number of instances that need the topology
    leader: Member
    # the `ms` of the topology's epoch. That of the next epoch is greater, even if no member gets
    # this topology.
    epoch_ms: int

    @staticmethod
    def for_topology(
        encoded: bytes, instances: int, leader: Member, epoch_ms: int
    ) -> TopologyReference:
        """A reference to an encoded topology. Raises TopologyError if it is larger than members
        accept."""
        if len(encoded) > MAX_BYTES:
            raise TopologyError(
                f"the topology has {len(encoded)} bytes, and members accept {MAX_BYTES}. Split the "
                f"deployment by application id"
            )
        return TopologyReference(digest_of(encoded), len(encoded), instances, leader, epoch_ms)

    def refers_to(self, encoded: bytes) -> bool:
        return len(encoded) == self.size and digest_of(encoded) == self.digest

    def encode(self) -> bytes:
        """The user data of an assignment."""
        return pack(
            {
                "v": VERSION,
                "digest": self.digest,
                "size": self.size,
                "instances": self.instances,
                "leader": self.leader.fields(),
                "epoch_ms": self.epoch_ms,
            }
        )


Assigned = Topology | TopologyReference | IdInUse
"""What a leader sends to a member."""


def decode_assignment(user_data: bytes, generation: int) -> Assigned:
    """What a leader has sent. Raises TopologyError if `user_data` is malformed."""
    try:
        document = unpack(user_data)
        if document["v"] == id_in_use.VERSION:
            return IdInUse(Member.from_fields(document["holder"]))
        if document["v"] != VERSION:
            return Topology.decode(user_data, generation)
        reference = TopologyReference(
            str(document["digest"]),
            int(document["size"]),
            int(document["instances"]),
            Member.from_fields(document["leader"]),
            int(document["epoch_ms"]),
        )
    except MALFORMED as e:
        if isinstance(e, TopologyError):
            raise
        raise TopologyError(f"malformed user data of an assignment: {e!r}") from e
    if not 0 <= reference.size <= MAX_BYTES:
        raise TopologyError(f"a topology of {reference.size} bytes; at most {MAX_BYTES} are read")
    return reference
