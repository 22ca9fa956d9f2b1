"""Files of secrets, with the permissions that the product requires."""

from __future__ import annotations

from pathlib import Path


def write_private(path: Path, content: bytes) -> Path:
    """Writes a file that only the owner may read, even before it has content."""
    path.touch(0o600)
    path.chmod(0o600)
    path.write_bytes(content)
    return path
