"""Which network stack a process uses: that of its machine, or of its container."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/net")
_SIZE = 16  # characters


def network_id() -> str:
    """A name that no other network stack has, and this one has until it ends; "" if the system does
    not say. Of two processes with the same name and port, one has ended, because the port was
    free."""
    try:
        text = f"{_BOOT.read_text().strip()} {os.readlink(_NAMESPACE)}"
    except OSError:
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:_SIZE]
