"""Reads the data of a stopped backend from disk, without the product's code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from model.records import ENTRY, METADATA_KEY, POSITION_KEY, StoreMetadata, decode_number
from tests.support.topics import Entries


@dataclass(frozen=True)
class Stored:
    """The content of a closed store partition."""

    entries: Entries
    position: int
    metadata: StoreMetadata


def stored(data_dir: Path, view: str, partition: int) -> Stored:
    """Reads a store partition. The stored keys must be the record keys."""
    path = str(data_dir / view / str(partition))
    db = Rdict(path, Options(raw_mode=True), access_type=AccessType.read_only())
    try:
        entries: Entries = {}
        position, metadata = None, None
        for key, value in db.items():
            if key[:1] == ENTRY:
                stamp = int.from_bytes(value[:8], "big", signed=True)
                offset = int.from_bytes(value[8:16], "big", signed=True)
                entries[key[1:]] = (stamp, offset, value[16:])
            elif key == POSITION_KEY:
                position = decode_number(value)
            elif key == METADATA_KEY:
                metadata = StoreMetadata.decode(value)
        assert position is not None
        assert metadata is not None
        return Stored(entries, position, metadata)
    finally:
        db.close()
