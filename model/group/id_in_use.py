"""What the leader sends to a member whose id another instance has, instead of a topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from model.kafka.user_data import pack
from model.topology import Member

# the version of the user data
VERSION: Final = 4


@dataclass(frozen=True)
class IdInUse:
    """`holder`: the instance that has the id."""

    holder: Member

    def encode(self) -> bytes:
        """The user data of an assignment."""
        return pack({"v": VERSION, "holder": self.holder.fields()})
