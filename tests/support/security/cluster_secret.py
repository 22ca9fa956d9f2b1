"""Files with cluster secrets, and what proxies sign with them."""

from __future__ import annotations

import hmac
from pathlib import Path

from backend.security.cluster_secret import ClusterSecret
from backend.security.signatures import Purpose, Signer
from backend.wire.point_batch import READS

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


def _digest(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


class ProxyConnection:
    """A proxy's side of a connection: it signs batches of reads for the instance b1."""

    def __init__(self, secret: ClusterSecret, purpose: Purpose = Purpose.PROXY) -> None:
        self._signer = Signer(secret, purpose)
        self._signed = b""
        self._key = b""
        self._number = 0

    def signature(self, body: bytes) -> bytes:
        """The signature of the next batch."""
        if not self._key:
            self._signed = self._signer.sign("POST", READS, "b1", body).header
            return self._signed
        self._number += 1
        return _digest(self._key, b"%d\n%b" % (self._number, body)).hex()[:32].encode()

    def begin(self, secret: str = SECRET) -> None:
        """Begins to sign with a connection key. Call when the last signature was accepted."""
        of_connections = _digest(secret.encode(), b"queryable-topics connection")
        self._key, self._number = _digest(of_connections, self._signed.rpartition(b":")[2]), 0

    def end(self) -> None:
        self._key = b""
