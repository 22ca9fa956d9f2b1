"""Recognises stores of older versions, which have no mark file, by opening them.

Even a read-only open writes a file, so they are opened through links in a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from model.records import METADATA_KEY, POSITION_KEY, StoreMetadata, decode_number

_CONFIG = "rocksdict-config.json"


def is_store(path: Path) -> bool:
    """Whether the folder is a RocksDB with a position and metadata. Changes nothing in it."""
    files = list(path.iterdir())
    if not {"CURRENT", _CONFIG} <= {file.name for file in files}:
        return False
    if any(file.is_symlink() or not file.is_file() for file in files):
        return False
    with tempfile.TemporaryDirectory(prefix="queryable-") as name:
        links = Path(name)
        for file in files:
            if file.name == _CONFIG:
                (links / _CONFIG).write_bytes(file.read_bytes())
            else:
                (links / file.name).symlink_to(file.absolute())
        try:
            options = Options(raw_mode=True)
            db = Rdict(str(links), options, {"default": options}, AccessType.read_only())
            try:
                position, metadata = db.get(POSITION_KEY), db.get(METADATA_KEY)
            finally:
                db.close()
            if position is None or metadata is None:
                return False
            decode_number(position)
            StoreMetadata.decode(metadata)
        except Exception:
            # rocksdict raises plain exceptions
            return False
    return True
