"""Whether a folder from before there were marks is one of our stores: it is opened and looked at.

Through links in a temporary folder: even to open a database for reading writes a file beside it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from model.records import IDENTITY_KEY, POSITION_KEY, StoreMetadata, decode_number

_CONFIG = "rocksdict-config.json"


def is_store(path: Path) -> bool:
    """Whether it is a RocksDB with a position and an identity as we write them. Changes nothing."""
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
                position, identity = db.get(POSITION_KEY), db.get(IDENTITY_KEY)
            finally:
                db.close()
            if position is None or identity is None:
                return False
            decode_number(position)
            StoreMetadata.decode(identity)
        except Exception:
            # rocksdict raises plain exceptions; whatever it is, this is not known to be ours
            return False
    return True
