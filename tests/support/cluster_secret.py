"""Files with cluster secrets."""

from __future__ import annotations

from pathlib import Path

from backend.security.cluster_secret import ClusterSecret

SECRET = "0123456789abcdef0123456789abcdef"
OTHER_SECRET = "fedcba9876543210fedcba9876543210"


def write_secrets(path: Path, *secrets: str) -> Path:
    """Writes the file as an operator should: under another name, then renamed."""
    new = path.with_name(path.name + ".new")
    new.touch(0o600)
    new.write_text("".join(f"{secret}\n" for secret in secrets))
    new.rename(path)
    return path


def cluster_secret(
    folder: Path, *secrets: str, application_id: str = "queryable-topics"
) -> ClusterSecret:
    """The secrets of a new file."""
    number = len(list(folder.iterdir()))
    return ClusterSecret(
        write_secrets(folder / f"secret-{number}", *(secrets or (SECRET,))), application_id
    )
