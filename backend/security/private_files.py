"""Files with secrets and private keys, which other users must not read."""

from __future__ import annotations

import os
import stat


def exposure(status: os.stat_result) -> str | None:
    """What is wrong with the permissions of such a file; None if nothing is.

    A file of root may be readable by its group, as for the keys of PostgreSQL.
    """
    allowed = 0o740 if status.st_uid == 0 else 0o700
    if stat.S_IMODE(status.st_mode) & ~allowed:
        return "other users can read or change it. Protect it with: chmod 600"
    return None
